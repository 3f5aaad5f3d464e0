"""What a change of some files would run, and how long that takes in two lanes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from . import costs, inputs, plan
from .table import Set, Stage


@dataclasses.dataclass(frozen=True)
class Answer:
    """``why``: the stages that run, in their order, each with the first file that asks for it (empty: it always runs).

    ``ends``: for each lane when it ends, after the ``first`` seconds of what runs before the lanes.
    """

    why: Mapping[Stage, str]
    seconds: Mapping[str, float]
    first: float
    ends: Mapping[str, float]

    @property
    def total(self) -> float:
        """How long the whole takes."""
        return self.first + max(self.ends.values())


def expanded(given: Sequence[str], paths: Sequence[str]) -> list[str]:
    """The files of the tree that the given files and folders are. ValueError for what is neither."""
    found: list[str] = []
    for each in given:
        name = each.removeprefix("./").rstrip("/")
        inside = [path for path in paths if path == name or path.startswith(f"{name}/")]
        if not inside:
            raise ValueError(f"{each}: neither a file nor a folder of the tree; name it from the top of the checkout")
        found += inside
    return found


def answer(chosen: Set, changed: Sequence[str], known: Mapping[str, costs.Cost]) -> Answer:
    """For a set. Raises costs.CostsError for a stage that would run and whose cost nobody knows."""
    why = {}
    for stage in chosen.stages:
        touched = inputs.select(stage.inputs, changed)
        if touched or not stage.inputs:
            why[stage] = touched[0] if touched else ""
    seconds = costs.known(known, [stage.name for stage in why])
    first = sum(costs.known(known, chosen.first).values())
    return Answer(why, seconds, first, plan.ends(list(why), seconds))


def told(answer: Answer) -> str:
    """For people: a line for each stage, and the sums."""
    lines = [f"{'stage':<22} {'lane':<8} {'seconds':>7}  because of"]
    lines += [
        f"{stage.name:<22} {stage.lane:<8} {answer.seconds[stage.name]:>7.0f}  {path or 'it always runs'}"
        for stage, path in answer.why.items()
    ]
    lanes = ", ".join(f"{lane} {seconds:.0f} s" for lane, seconds in answer.ends.items())
    lines.append(f"lanes end after: {lanes}; with {answer.first:.0f} s before them {answer.total:.0f} s in all")
    return "\n".join(lines)
