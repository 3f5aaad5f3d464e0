"""tools/stage-costs.json: what each stage cost when it ran last, on two cores beside another, with everything cached.

`stages.py record` takes it from build/times.json, `stages.py what-if` counts with it, developing.md shows it.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any

FILE = pathlib.Path("tools/stage-costs.json")


class CostsError(Exception):
    """The file cannot be used; the message says what is wrong, and what to do."""


@dataclasses.dataclass(frozen=True)
class Cost:
    """Seconds of wall time, of CPU time (what was waited for), and the number of tests that have run."""

    seconds: float
    cpu: float
    tests: int = 0


def read(path: pathlib.Path) -> dict[str, Cost]:
    """By stage. Raises CostsError."""
    try:
        return {name: Cost(**fields) for name, fields in json.loads(path.read_text(encoding="utf-8")).items()}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise CostsError(f"{path}: {error}: expected seconds, cpu and tests by stage; restore it from git") from None


def write(path: pathlib.Path, costs: Mapping[str, Cost]) -> None:
    """One stage a line, so that a change of one is a change of one line."""
    lines = [f" {json.dumps(name)}: {json.dumps(dataclasses.asdict(costs[name]))}" for name in sorted(costs)]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def last_run(path: pathlib.Path) -> dict[str, Any]:
    """The record that a run has left. Raises CostsError."""
    try:
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CostsError(f"{path}: {error}: expected the record of a run; `make test FULL=1` leaves it") from None
    return record


def reason_against(record: Mapping[str, Any], whole: Iterable[str]) -> str:
    """Why a run's figures are not those of `make test FULL=1`; empty where they are. ``whole``: that one's stages.

    Alone, or beside fewer stages, one takes less time. A stage that failed has run beside the others all the same.
    """
    if record["set"] != "test":
        return f"it was `make {record['set']}`"
    if record["partial"]:
        return str(record["partial"])
    ran = {run["stage"] for run in record["stages"] if run["result"] in ("ok", "FAILED")}
    missing = [name for name in whole if name not in ran]
    return f"{len(missing)} of its stages did not run, {missing[0]} among them" if missing else ""


def updated(
    costs: Mapping[str, Cost], record: Mapping[str, Any], whole: Iterable[str], stages: Iterable[str]
) -> dict[str, Cost]:
    """With what ran well in a run's record, without what is no stage any more. Raises CostsError.

    ``whole``: the stages of `make test`; ``stages``: those that have a cost.
    """
    try:
        reason = reason_against(record, whole)
        ran = {
            run["stage"]: Cost(round(run["seconds"]), round(run["cpu_seconds"]), run["tests"])
            for run in record["stages"]
            if run["result"] == "ok"
        }
    except (KeyError, TypeError) as error:
        raise CostsError(f"the run's record lacks {error}: it is of another version; `make test FULL=1` anew") from None
    if reason:
        raise CostsError(f"the last run was not the whole of `make test FULL=1`: {reason}; nothing is recorded")
    both = {**costs, **ran}
    return {name: both[name] for name in stages if name in both}


def known(costs: Mapping[str, Cost], names: Iterable[str]) -> dict[str, float]:
    """The seconds of these stages. Raises CostsError for one that never ran."""
    wanted = list(names)
    missing = sorted(set(wanted) - set(costs))
    if missing:
        raise CostsError(f"{FILE}: no cost of {', '.join(missing)}: run it, then tools/stages.py record")
    return {name: costs[name].seconds for name in wanted}
