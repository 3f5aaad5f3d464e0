"""Gives memory back that starting took and running does not need. Called by `agent` twice, after all is published.

Compiling the modules out of a zipapp leaves holes that glibc keeps; an agent lives for months beside other people's
programs. Where there is no glibc, nothing happens.
"""

from __future__ import annotations

import gc


def give_back() -> None:
    """Collect what is garbage, and let the C library return what is free to the kernel."""
    import ctypes

    gc.collect()
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return
    trim(0)
