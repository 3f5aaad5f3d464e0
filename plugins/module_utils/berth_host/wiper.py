# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Destroys what is on one block device and reads back that it is gone. A process of its own, started by the node agent.

It reads one line from its standard input, a JSON object {name, device, number, kernel, size, method, offset, fallback,
finished, request}, and writes one line for each piece that is done: {"step", "offset", "method"}, at last {"done":
true} or {"failed": why}. A disk that hangs hangs this process and nobody else. When its standard input closes, whoever
asked is gone, and it stops after the piece at hand.

From the first look to the last the device is open exclusively: the kernel lets nobody mount it, use it for swap or
build on it meanwhile, in whatever namespace. A wipe that goes on first reads back that the beginning is still as it
left it: somebody else's new data is never wiped with the old.
"""

from __future__ import annotations

import json
import os
import select
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from .core import BerthError, DataError, StateError
from .machine import Machine
from .opened import Expected
from .openers import lasting_openers
from .probes import read_signature
from .surface import PIECE, Surface, pattern

#: At both ends: partition tables, boot loaders, arrays and volume managers keep their copies there.
_END = 4 << 20


def main() -> int:
    """Carry out the order on standard input. 0: done, 1: failed or stopped; the last line says why.

    Nothing is written to the disk before another line has come: by then the step that was said first is recorded, so
    that whoever comes after a death knows that the wipe had begun.
    """
    order = json.loads(sys.stdin.readline())
    os.nice(10)
    try:
        for number, line in enumerate(wipe(Machine(), order)):
            _say(line)
            if (number == 0 and not sys.stdin.readline()) or _is_alone():
                return 1
    except BrokenPipeError:  # whoever asked has been killed
        return 1
    except (BerthError, OSError) as exc:
        _say({"failed": str(exc)})
        return 1
    _say({"done": True})
    return 0


def wipe(machine: Machine, order: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Does one piece for each value that is taken. Raises DataError, StateError, OSError; then nothing more is done."""
    expected = Expected(*(order[key] for key in Expected._fields))
    with Surface(machine, expected, order["size"]) as surface:
        _check_holders(machine, order)
        offset, method = int(order["offset"]), str(order["method"])
        if order["finished"]:
            _check_as_left(machine, surface, order)
            return
        if offset:
            _check_untouched(surface, order, offset)
        else:
            yield {"step": "Signatures", "offset": 0, "method": method}
            _remove_signatures(machine, surface, order)
        if method != "signatures":
            yield {"step": "Overwriting", "offset": offset, "method": method}
            while offset < surface.size:
                length = min(PIECE, surface.size - offset)
                method = _overwrite(surface, order, offset, length, method)
                offset += length
                yield {"step": "Overwriting", "offset": offset, "method": method}
        yield {"step": "Verifying", "offset": offset, "method": method}
        if method == "random":
            _zero_ends(surface, order)  # blank is what has zeros at both ends
        _verify_blank(machine, order, method)


def _check_holders(machine: Machine, order: Mapping[str, Any]) -> None:
    folder = f"/sys/dev/block/{order['number']}"
    holders = machine.names(f"{folder}/holders")
    for part in machine.names(folder):
        if machine.exists(f"{folder}/{part}/partition"):
            holders += machine.names(f"{folder}/{part}/holders")
    if holders:
        raise DataError(
            f"LocalDisk {order['name']}: {order['device']} is held by {', '.join(holders)}; it is not wiped"
        )
    writers = lasting_openers(machine, str(order["number"]))
    if writers:
        raise DataError(
            f"LocalDisk {order['name']}: {order['device']} is open for writing by {', '.join(writers)}; it is wiped "
            "when they have ended"
        )


def _check_untouched(surface: Surface, order: Mapping[str, Any], offset: int) -> None:
    length = min(PIECE, offset)
    found, expected = surface.read(0, length), _expected(order, 0, length)
    is_done = offset == surface.size and found == bytes(min(_END, length)) + expected[_END:]
    if found != expected and not is_done:
        raise DataError(
            f"LocalDisk {order['name']}: {order['device']} was written to after its wipe had begun; nothing more is "
            "wiped. If that data may go too, take the request back and ask anew"
        )


def _check_as_left(machine: Machine, surface: Surface, order: Mapping[str, Any]) -> None:
    """The end was recorded on this host, and not by the API server: nothing came to the disk since."""
    length = min(_END, surface.size)
    signature = read_signature(machine, order["device"])
    is_blank = not signature.facts and not signature.problem
    if not is_blank or any(any(surface.read(offset, length)) for offset in (0, surface.size - length)):
        carries = " ".join(signature.facts.values()) or "other data"
        raise DataError(
            f"LocalDisk {order['name']}: wipe {order['request']} was carried out on this host before, and "
            f"{order['device']} carries {carries} now, which came later: nothing is wiped. Was "
            "the cluster's state restored from a backup? If that data may go, take the request back and ask with "
            "another requestID"
        )


def _remove_signatures(machine: Machine, surface: Surface, order: Mapping[str, Any]) -> None:
    """wipefs knows every place where a signature can be; what is left at both ends goes with it."""
    answer = machine.run(["wipefs", "--all", "--force", "--quiet", order["device"]], timeout=300.0)
    if answer.status != 0:
        raise StateError(f"LocalDisk {order['name']}: wipefs failed on {order['device']}: {answer.why()}")
    _zero_ends(surface, order)


def _zero_ends(surface: Surface, order: Mapping[str, Any]) -> None:
    length = min(_END, surface.size)
    for offset in sorted({0, surface.size - length}):
        surface.write(offset, bytes(length))
        if any(surface.read(offset, length)):
            raise StateError(f"LocalDisk {order['name']}: {order['device']} kept its old data at byte {offset}")


def _overwrite(surface: Surface, order: Mapping[str, Any], offset: int, length: int, method: str) -> str:
    """One piece, read back. Returns the method that did it."""
    wanted = _expected(order, offset, length)
    if method == "discard":
        surface.discard(offset, length)
        if surface.read(offset, length) == wanted:
            return method
        if not order["fallback"]:
            raise StateError(
                f"LocalDisk {order['name']}: {order['device']} keeps data that it was told to discard, at byte "
                f"{offset}; ask for zero or auto"
            )
        method = "zero"
    if method == "zero":
        surface.zero(offset, length)
    else:
        surface.write(offset, wanted)
    if surface.read(offset, length) != wanted:
        raise StateError(f"LocalDisk {order['name']}: {order['device']} reads back something else at byte {offset}")
    return method


def _expected(order: Mapping[str, Any], offset: int, length: int) -> bytes:
    return pattern(str(order["request"]), offset, length) if order["method"] == "random" else bytes(length)


def _verify_blank(machine: Machine, order: Mapping[str, Any], method: str) -> None:
    signature = read_signature(machine, order["device"])
    if signature.facts or signature.problem:
        raise StateError(
            f"LocalDisk {order['name']}: after the wipe ({method}) {order['device']} still carries "
            f"{signature.facts or signature.problem}"
        )


def _say(line: Mapping[str, Any]) -> None:
    os.write(sys.stdout.fileno(), json.dumps(line).encode() + b"\n")


def _is_alone() -> bool:
    """Whether standard input has been closed: nobody writes to it once the wipe goes on."""
    return bool(select.select([sys.stdin], [], [], 0)[0])


if __name__ == "__main__":
    raise SystemExit(main())
