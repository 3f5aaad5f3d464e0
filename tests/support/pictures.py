"""Pictures of pages, compared by what an eye would see."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

#: Pixels of a block's side, and by how much of 255 its mean may differ.
BLOCK, SHADE = 8, 12
Picture = np.ndarray[Any, np.dtype[np.uint8]]


def read_png(file: Path) -> Picture:
    """Rows, columns, and red, green and blue."""
    with Image.open(file) as image:
        return np.asarray(image.convert("RGB"))


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
