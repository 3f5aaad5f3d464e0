"""What containers use, minute by minute, kept for those who predict: samples, stores, and the Part that takes them.

    samples.py     a kubelet's summary -> Samples (pure)
    store.py       what a store offers, and which one the settings mean
    sqlite.py      the embedded store
    prometheus.py  remote write and remote read; wire formats in remote.py (pure)
    sampler.py     the Part

`make` is called by the frame.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..figures import Figures
    from ..kubelet import KubeletClient
    from ..seams import Part, Tools


def make(tools: Tools, kubelet: KubeletClient, registry: Figures) -> Part:
    """The Part that samples usage."""
    from .sampler import Sampler

    return Sampler(tools, kubelet, registry)
