"""Builds the files that kernel and udev show of hardware that is not here, below a folder.

What a real machine's /sys, /run/udev/data and /proc look like is restated as small mappings; the readers under test are
the real ones and only get another root.
"""

from __future__ import annotations

from pathlib import Path


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")


def disk(root: Path, name: str, number: str, size: int = 4096, udev: str = "", **attributes: str) -> None:
    """One entry of /sys/block; ``size`` in sectors, ``attributes`` as path with __ for /."""
    files = {"dev": number, "size": str(size), "ro": "0", "removable": "0", "queue/rotational": "0"}
    files.update({key.replace("__", "/"): value for key, value in attributes.items()})
    write(root, {f"sys/block/{name}/{file}": text for file, text in files.items()})
    for folder in ("holders", "slaves"):
        (root / f"sys/block/{name}/{folder}").mkdir(exist_ok=True)
    if udev:
        write(root, {f"run/udev/data/b{number}": udev})


def partition(root: Path, parent: str, name: str, number: str, size: int = 1024, udev: str = "") -> None:
    folder = f"sys/block/{parent}/{name}"
    write(root, {f"{folder}/{file}": text for file, text in (("dev", number), ("size", str(size)), ("partition", "1"))})
    (root / folder / "holders").mkdir()
    if udev:
        write(root, {f"run/udev/data/b{number}": udev})


def built_on(root: Path, below: str, above: str) -> None:
    """``above`` (a disk that is there) stands on ``below`` (a path in sys/block)."""
    (root / f"sys/block/{below}/holders/{above}").mkdir(parents=True)
    (root / f"sys/block/{above}/slaves/{below.rsplit('/', 1)[-1]}").mkdir(parents=True)


def mounts(root: Path, *lines: str) -> None:
    """``number root point - type source options`` each."""
    text = "\n".join(f"{20 + at} 1 {line.replace(' - ', ' rw,relatime shared:1 - ')}" for at, line in enumerate(lines))
    write(root, {"proc/self/mountinfo": text})
