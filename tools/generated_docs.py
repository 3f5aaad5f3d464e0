"""Write what the documentation takes from the code: a berth's states, the tree of errors, the API, what stages cost.

    python3 tools/generated_docs.py           write it into docs/architecture.md, docs/guides/api.md and developing.md
    python3 tools/generated_docs.py --check   fail where a page is not current

`make docs` writes, tests/tools/test_generated_docs.py checks. A page marks each place with a comment
`<!-- generated: NAME -->` and its end with `<!-- end -->`; what stands outside is written by people.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

from api_reference import api_objects
from proving import costs, table, targets, what_if

from berth_core import errors
from berth_core.lifecycle import situations, states
from berth_core.tasks import states as task_states

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PLACE = re.compile(r"(<!-- generated: (?P<name>[a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def state_diagram() -> str:
    """The life of a berth as a Mermaid diagram."""
    return f"```mermaid\n{states.diagram()}```\n"


def state_table() -> str:
    """Every transition with its writes, in order."""
    rows = ["| step | from | to | writes, in this order | what it means |", "|---|---|---|---|---|"]
    for step in states.TABLE:
        writes = ", ".join(f"{write.verb} {write.what}" for write in step.writes)
        rows.append(f"| {step.name} | {step.source} | {step.target} | {writes} | {step.meaning} |")
    return "\n".join(rows) + "\n"


def task_diagram() -> str:
    """The life of a task as a Mermaid diagram."""
    return f"```mermaid\n{task_states.diagram()}```\n"


def error_tree() -> str:
    """The tree that the docstring of errors.py prints."""
    lines = (errors.__doc__ or "").splitlines()
    tree = [line for line in lines if line.startswith(("BerthError", "|", "`--", "    "))]
    return "```text\n" + "\n".join(tree) + "\n```\n"


def stage_costs() -> str:
    """What each stage of `make test` costs."""
    known = costs.read(ROOT / costs.FILE)
    lines = ["| stage | lane | seconds | CPU | tests |", "|---|---|---|---|---|"]
    for stage in table.read(ROOT / "tools/stages.ini")["test"].stages:
        cost = known[stage.name]
        lines.append(f"| `{stage.name}` | {stage.lane} | {cost.seconds:.0f} | {cost.cpu or ''} | {cost.tests or ''} |")
    return "\n".join(lines) + "\n"


def change_costs() -> str:
    """How long `make test` takes after changes, and how long it may."""
    known, sets = costs.read(ROOT / costs.FILE), table.read(ROOT / "tools/stages.ini")
    lines = ["| run | seconds | how it is known | target | held by a test |", "|---|---|---|---|---|"]
    for target in targets.TARGETS:
        seconds = what_if.answer(sets[target.set], target.changed, known).total
        lines.append(f"| {target.what} | {seconds:.0f} | by its stages | {target.seconds} | {target.most} |")
    lines += [
        f"| {each.what} | {each.seconds} | measured on {each.date} | {each.target} |  |" for each in targets.MEASURED
    ]
    return "\n".join(lines) + "\n"


Parts = dict[str, Callable[[], str]]
PAGES: dict[str, Parts] = {
    "architecture.md": {
        "error-tree": error_tree,
        "state-diagram": state_diagram,
        "state-table": state_table,
        "situation-table": situations.table,
    },
    "guides/api.md": {"api-objects": api_objects},
    "guides/tasks.md": {"task-diagram": task_diagram, "task-table": task_states.table},
    "guides/developing.md": {"change-costs": change_costs, "stage-costs": stage_costs},
}


def filled(name: str, text: str, parts: Parts) -> str:
    """The page with every marked place filled anew; an unknown place is an error, and so is a part without one."""
    found = {match["name"] for match in PLACE.finditer(text)}
    if found != set(parts):
        sys.exit(f"{name}: marked places {sorted(found)}, parts {sorted(parts)}")
    return PLACE.sub(lambda match: match[1] + parts[match["name"]]() + match[3], text)


def main() -> int:
    stale = 0
    for name, parts in PAGES.items():
        page = DOCS / name
        text = page.read_text(encoding="utf-8")
        wanted = filled(name, text, parts)
        if text == wanted:
            continue
        if "--check" in sys.argv[1:]:
            print(f"{name} is not current: run `make docs`", file=sys.stderr)
            stale = 1
        else:
            page.write_text(wanted, encoding="utf-8")
            print(f"{name} written")
    return stale


if __name__ == "__main__":
    sys.exit(main())
