# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one place that names numpy, and the column types of the tables.

Called by every table and plugin. A column is a one-dimensional array with one entry per row of a table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import InputError

__all__ = [
    "NUMPY_ERROR",
    "BoolColumn",
    "FloatColumn",
    "IntColumn",
    "at_rows",
    "bools",
    "every_row",
    "ints",
    "np",
    "require_numpy",
    "with_row",
]

NUMPY_ERROR: ImportError | None = None
try:
    import numpy as np
except ImportError as error:  # the module's documentation asks for numpy; the snapshot says so in words
    np = None  # type: ignore[assignment]
    NUMPY_ERROR = error

if TYPE_CHECKING:
    from numpy.typing import NDArray

    IntColumn = NDArray[np.int64]
    BoolColumn = NDArray[np.bool_]
    FloatColumn = NDArray[np.float64]
else:
    IntColumn = BoolColumn = FloatColumn = Any


def require_numpy() -> None:
    """Say plainly what is missing, instead of a traceback at the first column."""
    if NUMPY_ERROR is not None:
        raise InputError(
            "the Python library numpy (1.22 or newer) is needed on the host that runs this task and cannot be imported "
            f"({NUMPY_ERROR}): install it for the interpreter in use, for example with python3 -m pip install numpy"
        )


def ints(length: int, fill: int = 0) -> IntColumn:
    """Return a new integer column."""
    return np.full(length, fill, dtype=np.int64) if fill else np.zeros(length, dtype=np.int64)


def bools(length: int, fill: bool = False) -> BoolColumn:
    """Return a new boolean column."""
    return np.ones(length, dtype=np.bool_) if fill else np.zeros(length, dtype=np.bool_)


def with_row(column: Any, row: int) -> Any:
    """Return the column with one more entry, 0, at this row: in the room behind it, of which each copy leaves as much.

    So many rows that come in order cost one copy each time their number doubles. The given column is of no use then.
    """
    size, room = len(column), column.base
    if room is None or room.ndim != 1 or len(room) <= size:
        room = np.zeros(max(2 * size, 16), dtype=column.dtype)
        room[:row] = column[:row]
    room[row + 1 : size + 1] = column[row:]
    room[row] = 0
    return room[: size + 1]


def at_rows(rows: IntColumn, length: int) -> IntColumn | slice:
    """Return what takes ascending rows out of a column of a length: nothing is copied where that is all of them."""
    return slice(None) if len(rows) == length else rows


def every_row(length: int) -> IntColumn:
    """Return the row numbers 0 .. length - 1."""
    return np.arange(length, dtype=np.int64)
