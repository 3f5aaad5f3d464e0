"""Pictures of pages: read from PNG, and compared by what an eye would see."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

SIGNATURE = b"\x89PNG\r\n\x1a\n"
#: Pixels of a block's side, and by how much of 255 its mean may differ.
BLOCK, SHADE = 8, 12
Picture = np.ndarray[Any, np.dtype[np.uint8]]


def read_png(file: Path) -> Picture:
    """Rows, columns, and red, green and blue. 8 bits a colour, not interlaced: what Chromium writes."""
    content = file.read_bytes()
    assert content.startswith(SIGNATURE), f"{file} is not a PNG"
    parts = list(_chunks(content))
    width, height, depth, colours, _method, _filter, interlaced = struct.unpack(">IIBBBBB", dict(parts)[b"IHDR"])
    assert (depth, colours in (2, 6), interlaced) == (8, True, 0), f"{file} is of another kind of PNG"
    data = zlib.decompress(b"".join(body for kind, body in parts if kind == b"IDAT"))
    channels = 3 if colours == 2 else 4
    lines = np.frombuffer(data, np.uint8).reshape(height, 1 + width * channels)
    return _unfiltered(lines, channels).reshape(height, width, channels)[:, :, :3]


def unlike(one: Picture, other: Picture) -> float:
    """The share of blocks that look different; 1 where the sizes do."""
    if one.shape != other.shape:
        return 1.0
    return float((np.abs(_means(one) - _means(other)).max(axis=2) > SHADE).mean())


def _means(picture: Picture) -> np.ndarray[Any, np.dtype[np.float64]]:
    height, width = (size // BLOCK * BLOCK for size in picture.shape[:2])
    blocks = picture[:height, :width].reshape(height // BLOCK, BLOCK, width // BLOCK, BLOCK, 3)
    means: np.ndarray[Any, np.dtype[np.float64]] = blocks.mean(axis=(1, 3))
    return means


def _chunks(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = len(SIGNATURE)
    while at < len(content):
        size, kind = struct.unpack_from(">I4s", content, at)
        yield kind, content[at + 8 : at + 8 + size]
        at += size + 12


def _unfiltered(lines: Picture, step: int) -> Picture:
    """The pixels of lines, each of which begins with the filter that it was written by."""
    rows = np.zeros((len(lines) + 1, lines.shape[1] - 1 + step), np.int64)
    for number, line in enumerate(lines):
        above, row = rows[number], rows[number + 1]
        row[step:] = line[1:]
        if line[0] == 2:
            row[step:] += above[step:]
        elif line[0]:
            _by_the_left(int(line[0]), row, above, step)
        row %= 256
    return rows[1:, step:].astype(np.uint8)


def _by_the_left(kind: int, row: np.ndarray[Any, Any], above: np.ndarray[Any, Any], step: int) -> None:
    """Filters by the pixel on the left: 1 itself, 3 its mean with that above, 4 the nearest of both and the corner."""
    values, up = row.tolist(), above.tolist()
    for at in range(step, len(values)):
        left, over, corner = values[at - step], up[at], up[at - step]
        if kind == 1:
            guess = left
        elif kind == 3:
            guess = (left + over) // 2
        else:
            guess = min((left, over, corner), key=lambda one: abs(left + over - corner - one))
        values[at] = (values[at] + guess) % 256
    row[:] = values
