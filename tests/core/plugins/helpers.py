"""One plugin on its own: its verdicts and scores by node name."""

from __future__ import annotations

from berth_core.cluster.columns import every_row
from berth_core.framework.contract import Code
from berth_core.framework.profile import normalized
from berth_core.framework.state import Cycle


def judged(plugin, snapshot, request):
    """Return {node: reasons}, () for nodes that pass; {"": reasons} for a PreFilter's refusal; or "skipped"."""
    cycle = Cycle(snapshot, request)
    if hasattr(plugin, "pre_filter"):
        found = plugin.pre_filter(cycle)
        if found.status.code == Code.SKIP:
            return "skipped"
        if not found.status.ok:
            return {"": found.status.reasons}
    verdict = plugin.filter(cycle, every_row(len(snapshot.nodes)))
    found = zip(snapshot.nodes.names, verdict.codes, strict=True)
    return {name: verdict.table[int(code)].reasons for name, code in found}


def passing(plugin, snapshot, request):
    """Return the names of the nodes that pass."""
    return [name for name, reasons in judged(plugin, snapshot, request).items() if not reasons]


def codes(plugin, snapshot, request):
    """Return {node: code}."""
    verdict = plugin.filter(Cycle(snapshot, request), every_row(len(snapshot.nodes)))
    return {name: verdict.table[int(code)].code for name, code in zip(snapshot.nodes.names, verdict.codes, strict=True)}


def scored(plugin, snapshot, request, among=None, raw=False):
    """Return {node: score} after normalization over the nodes `among` (all by default), or "skipped"."""
    rows = every_row(len(snapshot.nodes))
    if among is not None:
        rows = rows[[snapshot.nodes.row_of[name] for name in among]]
    cycle = Cycle(snapshot, request)
    if hasattr(plugin, "pre_score") and plugin.pre_score(cycle, rows).code == Code.SKIP:
        return "skipped"
    column = plugin.score(cycle, rows)
    if normalized(plugin) is not None and not raw:
        column = plugin.normalize(cycle, rows, column)
    return {snapshot.nodes.names[int(row)]: int(value) for row, value in zip(rows, column, strict=True)}
