# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cluster as one self-contained page of HTML. Written to a file by the module report.

Everything that comes from the cluster is untrusted: it goes through `_t`, and stands as text or in a quoted attribute,
nowhere else. The page's own policy forbids it to load or run anything but its one style sheet and its one script.
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..model.quantity import format_bytes
from ..tasks import states as task_states
from . import berth_history, kept_data
from .history import Happened
from .overview import by_node, pod_text, spoken
from .page_parts import SCRIPT, STYLE

_MADE = re.compile(r'<meta name="date" content="([^"]{0,64})">')
_BAD = ("faulted", "missing", "unhealthy", "in_use")
_COUNTS = ("succeeded", "failed", "killed", "left")
_MOST_REASONS = 3
_STATES = (
    ("free", "with free disks"),
    ("held", "with held disks"),
    ("kept", "with kept data"),
    ("bad", "with bad disks"),
)


def render(
    found: Mapping[str, Any],
    findings: Sequence[Mapping[str, Any]],
    happened: Sequence[Happened],
    title: str,
    made: str,
    changes: Sequence[berth_history.Row] = (),
    batches: Sequence[Mapping[str, Any]] | None = (),
) -> str:
    """The page for an overview, the findings of cluster_drift and a history. ``made``: when it was read, for people.

    ``changes``: rows of berth_history. ``batches``: rows of tasks.batch_told; None: they could not be read.
    """
    body = "".join(
        (
            _header(found, title, made),
            "<main>",
            _tiles(found, findings),
            _findings(findings),
            _nodes(found, findings),
            _berths(found["berths"]),
            _kept(found["disks"]),
            _batches(batches),
            _changes(changes),
            _history(happened),
            "</main>",
        )
    )
    policy = f"default-src 'none'; style-src {_digest(STYLE)}; script-src {_digest(SCRIPT)}"
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}"><meta name="date" content="{_t(made)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="referrer" content="no-referrer">'
        f"<title>{_t(title)}</title><style>{STYLE}</style></head>\n<body>{body}<script>{SCRIPT}</script></body></html>\n"
    )


def made_at(page: str) -> str:
    """The ``made`` of a page that `render` returned; empty for any other text."""
    found = _MADE.search(page[:20000])
    return html.unescape(found.group(1)) if found else ""


def _t(value: object) -> str:
    """A value as text of the page: escaped, and what would not be seen (control, direction) made visible."""
    text = "" if value is None else str(value)
    return html.escape("".join(one if one.isprintable() else repr(one)[1:-1] for one in text), quote=True)


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _header(found: Mapping[str, Any], title: str, made: str) -> str:
    states = "".join(f'<option value="{value}">{words}</option>' for value, words in _STATES)
    return (
        f"<header><h1>{_t(title)}</h1><small>{_t(made)}</small>"
        '<input id="search" type="search" aria-label="Search" placeholder="Search: node, disk, app, phase">'
        f'<select id="state" aria-label="Which nodes"><option value="">all nodes</option>{states}</select>'
        f'<output id="count" data-total="{len(found["nodes"])}"></output>'
        '<button id="theme" type="button">light / dark</button></header>'
    )


def _tiles(found: Mapping[str, Any], findings: Sequence[Mapping[str, Any]]) -> str:
    totals = found["totals"]
    disks, devices = totals["disks"], totals["devices"]
    tiles = [
        ("Nodes", f"{totals['nodes']}", f"{totals['schedulable_nodes']} schedulable", None),
        (
            "Disks free",
            f"{disks['free']} of {disks['total']}",
            f"{disks['held']} held, {disks['retained']} keep data",
            (disks["free"], disks["total"]),
        ),
        (
            "Room free",
            format_bytes(disks["free_bytes"]),
            f"of {format_bytes(disks['bytes'])}",
            (disks["free_bytes"], disks["bytes"]),
        ),
        (
            "Berths",
            f"{len(found['berths'])}",
            f"of {len({(r['namespace'], r['app']) for r in found['berths']})} apps",
            None,
        ),
        ("Findings", f"{len(findings)}", "drift, and what nobody holds", None),
    ]
    if devices["total"]:
        words = f"shares of {devices['total']} devices free"
        share = (devices["free_shares"], devices["shares"])
        tiles.append(("Devices", f"{devices['free_shares']} of {devices['shares']}", words, share))
    made = (
        f'<div class="tile">{name}<b>{_t(big)}</b><small>{_t(small)}</small>{_meter(share)}</div>'
        for name, big, small, share in tiles
    )
    return f'<section class="tiles">{"".join(made)}</section>'


def _meter(share: tuple[int, int] | None) -> str:
    return f'<meter min="0" max="{share[1]}" value="{share[0]}"></meter>' if share and share[1] else ""


def _findings(findings: Sequence[Mapping[str, Any]]) -> str:
    if not findings:
        return "<h2>Findings</h2><p>Nothing has drifted, and nothing is held by nobody.</p>"
    rows = [(one["node"], one["object"], one["kind"], "; ".join(one["what"])) for one in findings]
    return "<h2>Findings</h2>" + _table(("node", "object", "kind", "what"), rows)


def _nodes(found: Mapping[str, Any], findings: Sequence[Mapping[str, Any]]) -> str:
    disks, devices = by_node(found["disks"]), by_node(found["devices"])
    alarmed = {str(one["node"]) for one in findings}
    known = {node["name"] for node in found["nodes"]}
    lost = [{"name": name, "lost": True} for name in sorted({*disks, *devices} - known)]
    called = spoken(found["berths"])
    items = {
        name: [*(_disk(disk, called) for disk in disks.get(name, [])), *map(_device, devices.get(name, []))]
        for name in {*known, *disks, *devices}
    }
    cards = [
        _node(node, disks.get(node["name"], []), items[node["name"]], node["name"] in alarmed)
        for node in [*found["nodes"], *lost]
    ]
    return f'<h2>Nodes</h2><section class="nodes">{"".join(cards)}</section>'


def _node(node: Mapping[str, Any], disks: Sequence[Mapping[str, Any]], items: Sequence[str], alarmed: bool) -> str:
    states = sorted({_state(disk) for disk in disks})
    words = []
    if node.get("lost"):
        words.append('<span class="alarm">not a node of the cluster</span>')
    else:
        words += [] if node["ready"] else ['<span class="alarm">not ready</span>']
        words += [] if node["schedulable"] else ["cordoned"]
    words += ['<span class="alarm">drift</span>'] if alarmed else []
    counts = node.get("disks") or {"free_bytes": 0, "bytes": 0}
    words.append(f"{format_bytes(counts['free_bytes'])} of {format_bytes(counts['bytes'])} free")
    return (
        f'<article class="node" data-find="{" ".join(states)}"><h3>{_t(node["name"])}</h3>'
        f'<p class="soft">{", ".join(words)}</p>{_meter((counts["free_bytes"], counts["bytes"]))}'
        f'<ul class="disks">{"".join(items)}</ul></article>'
    )


def _state(disk: Mapping[str, Any]) -> str:
    """One of _STATES, or other. A bad disk is bad whoever holds it."""
    if disk["why_not_free"] in _BAD or disk["phase"] in ("Faulted", "Missing"):
        return "bad"
    return {None: "free", "held": "held", "retained": "kept"}.get(disk["why_not_free"], "other")


def _disk(disk: Mapping[str, Any], called: Mapping[tuple[str, str], str]) -> str:
    holder, kept = disk["holder"], disk["retained_for"]
    who = ""
    if holder:
        name = called.get((holder["namespace"], holder["berth"]), holder["berth"])
        who = f"{holder['namespace']}/{name}, {holder['claim']}"
    elif kept:
        who = f"data of {kept['namespace']}/{kept['app']}-{kept['ordinal']}, {kept['claim']}"
    elif disk["why_not_free"]:
        who = disk["why_not_free"].replace("_", " ")
    facts = [
        format_bytes(disk["size"]),
        disk["storage_class"],
        disk["volume_mode"] if disk["volume_mode"] == "Block" else "",
    ]
    facts += [disk["health"] if disk["health"] not in (None, "Healthy", "Unknown") else ""]
    return _item(_state(disk), disk["name"], disk["phase"], who, facts)


def _device(device: Mapping[str, Any]) -> str:
    who = ", ".join(f"{one['namespace']}/{one['berth']} {one['shares']}" for one in device["holders"])
    state = "free" if device["free"] else "held" if device["holders"] else "bad"
    facts = [device["device_class"], f"{device['free_shares']} of {device['shares']} shares free", device["health"]]
    return _item(state, device["name"], device["phase"], who, facts)


def _item(state: str, name: str, phase: str, who: str, facts: Iterable[object]) -> str:
    said = " · ".join(_t(one) for one in facts if one)
    holder = f"<br>{_t(who)}" if who else ""
    return f'<li class="{state}">{_t(name)} <span class="word">{_t(phase)}</span> <small>{said}</small>{holder}</li>'


def _berths(rows: Sequence[Mapping[str, Any]]) -> str:
    if not rows:
        return "<h2>Berths</h2><p>None.</p>"
    shown = [
        (
            *(row[key] for key in ("namespace", "app", "ordinal", "phase", "node")),
            pod_text(row),
            ", ".join(f"{disk['claim']}: {disk['name']}" for disk in row["disks"]),
            ", ".join(f"{one['claim']}: {one['name']} ({one['shares']})" for one in row["devices"]),
        )
        for row in rows
    ]
    return "<h2>Berths</h2>" + _table(
        ("namespace", "app", "ordinal", "phase", "node", "pod", "disks", "devices"), shown
    )


def _kept(disks: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        (disk["node"], disk["name"], kept_data.whose(data), data.get("since"), *_ways(disk))
        for disk in kept_data.kept(disks)
        for data in (disk["retained_for"],)
    ]
    if not rows:
        return ""
    head = ("node", "disk", "whose data", "since", "to give it up", "to destroy it")
    return f"<h2>Kept data</h2><p>{_t(kept_data.KEEP.capitalize())}.</p>" + _table(head, rows)


def _ways(disk: Mapping[str, Any]) -> tuple[str, str]:
    commands = [way.command for way in kept_data.ways(disk)]
    return (commands[0], commands[1]) if commands else ("a wipe is asked for", "")


def _batches(rows: Sequence[Mapping[str, Any]] | None) -> str:
    """TaskBatches, those that have not ended first; why one waits, and how tasks failed."""
    if rows is None:
        return "<h2>Task batches</h2><p>Not read: the account of this report may not list them.</p>"
    if not rows:
        return ""
    ordered = sorted(rows, key=lambda row: (row["state"] in task_states.FINAL, row["namespace"], row["name"]))
    shown = [
        (
            *(row[key] for key in ("namespace", "name", "queue", "state")),
            *(row["counts"].get(key, 0) for key in _COUNTS),
            "; ".join([*filter(None, (row["reason"], row["message"])), *map(_failed, row["reasons"][:_MOST_REASONS])]),
        )
        for row in ordered
    ]
    return "<h2>Task batches</h2>" + _table(("namespace", "batch", "queue", "state", *_COUNTS, "why"), shown)


def _failed(row: Mapping[str, Any]) -> str:
    code = "" if row["exit_code"] is None else f" with exit code {row['exit_code']}"
    return f"{row['count']} failed{code} ({row['reason']}), as {row['example']}"


def _changes(changes: Sequence[berth_history.Row]) -> str:
    """A timeline for each replica, the latest first."""
    replicas: dict[str, list[tuple[str, ...]]] = {}
    for row in reversed(changes):
        time, replica, *others = berth_history.cells(row)
        replicas.setdefault(replica, []).append((time, *others))
    head = tuple(name for name in berth_history.HEAD if name != "replica")
    parts = [
        f"<details><summary>{_t(replica)}</summary>{_table(head, rows)}</details>"
        for replica, rows in sorted(replicas.items())
    ]
    return "<h2>Who changed the replicas</h2>" + "".join(parts) if parts else ""


def _history(happened: Sequence[Happened]) -> str:
    return "<h2>What happened lately</h2>" + _table(("time", "object", "what"), happened) if happened else ""


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    top = "".join(f"<th>{name}</th>" for name in head)
    body = "".join(f'<tr data-find="">{"".join(f"<td>{_t(cell)}</td>" for cell in row)}</tr>' for row in rows)
    return f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'
