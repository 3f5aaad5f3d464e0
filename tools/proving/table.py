"""tools/stages.ini as values: which stages there are, in which lane each runs, and which files each depends on.

[sets]      a name, and the targets that run first, one after the other, before "|"; after it the stages
[groups]    names for lists of inputs, which others name as @NAME
[STAGE]     one for each stage: lane, inputs, packages, after, needs
"""

from __future__ import annotations

import configparser
import dataclasses
import pathlib

LANES = ("compute", "wait")
KEYS = {"lane", "inputs", "packages", "after", "needs"}


class TableError(Exception):
    """The table cannot be used; the message names the section, what is wrong and what is expected."""


@dataclasses.dataclass(frozen=True)
class Stage:
    """One make target.

    ``inputs``: patterns of the files that it depends on, see `inputs.select`; empty: it always runs, no proof is kept.
    ``after``: stages that end before it begins, where they run at all. ``root``: it needs root. ``packages``: lists of
    Debian packages that it depends on beside those of `make deps`.
    """

    name: str
    lane: str
    inputs: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    root: bool = False
    packages: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Set:
    """What one command runs: ``first`` are plain targets, one after the other; then ``stages``, in lanes."""

    first: tuple[str, ...]
    stages: tuple[Stage, ...]


def read(path: pathlib.Path) -> dict[str, Set]:
    """All sets of a table. Raises TableError."""
    parser = configparser.ConfigParser(interpolation=None)
    try:
        with open(path, encoding="utf-8") as handle:
            parser.read_file(handle)
    except (OSError, configparser.Error) as error:
        raise TableError(f"{path}: {error}") from None
    groups = {name: text.split() for name, text in _items(parser, "groups").items()}
    stages = {
        name: _stage(name, _items(parser, name), groups) for name in parser.sections() if name not in ("sets", "groups")
    }
    return {name: _set(name, text, stages) for name, text in _items(parser, "sets").items()}


def names(sets: dict[str, Set]) -> list[str]:
    """Of everything that any of the sets runs."""
    return sorted({name for each in sets.values() for name in (*each.first, *(stage.name for stage in each.stages))})


def _items(parser: configparser.ConfigParser, section: str) -> dict[str, str]:
    return dict(parser.items(section)) if parser.has_section(section) else {}


def _stage(name: str, items: dict[str, str], groups: dict[str, list[str]]) -> Stage:
    unknown = sorted(set(items) - KEYS)
    if unknown:
        raise TableError(f"[{name}] {unknown[0]}: no such key; there are {', '.join(sorted(KEYS))}")
    lane, needs = items.get("lane", ""), items.get("needs", "")
    if lane not in LANES:
        raise TableError(f"[{name}] lane = {lane}: expected one of {', '.join(LANES)}")
    if needs not in ("", "root"):
        raise TableError(f"[{name}] needs = {needs}: expected root, or nothing")
    inputs = tuple(_expand(name, items.get("inputs", "").split(), groups))
    after, packages = (tuple(items.get(key, "").split()) for key in ("after", "packages"))
    return Stage(name, lane, inputs, after, needs == "root", packages)


def _expand(name: str, patterns: list[str], groups: dict[str, list[str]]) -> list[str]:
    """The patterns with every @GROUP replaced by its own."""
    expanded: list[str] = []
    for pattern in patterns:
        if not pattern.startswith("@"):
            expanded.append(pattern)
        elif pattern[1:] in groups:
            expanded += _expand(name, groups[pattern[1:]], groups)
        else:
            raise TableError(f"[{name}] inputs: {pattern}: no such group; [groups] has {', '.join(sorted(groups))}")
    return expanded


def _set(name: str, text: str, stages: dict[str, Stage]) -> Set:
    first, names = text.rpartition("|")[::2]
    wanted = names.split()
    for each in wanted:
        if each not in stages:
            raise TableError(f"[sets] {name}: {each}: no such stage; write a section [{each}]")
    for position, each in enumerate(wanted):
        # A lane takes its stages in this order: one that waits for a later stage could wait for ever.
        late = [other for other in stages[each].after if other in wanted[position:]]
        if late:
            raise TableError(f"[sets] {name}: {each} comes after {late[0]}: list {late[0]} before it")
    return Set(tuple(first.split()), tuple(stages[each] for each in wanted))
