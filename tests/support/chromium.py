"""A real Chromium without a window, for the tests and the bench of the pages."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path


def chromium(*args: str, profile: Path) -> subprocess.CompletedProcess[str]:
    """Run it without a window, a network or a sandbox of its own (root has none)."""
    program = shutil.which("chromium")
    assert program, "Chromium is not there: make deps (as root) installs the Debian package chromium"
    flags = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--no-pings")
    more = ("--disable-component-update", "--disable-background-networking", "--enable-logging=stderr", "--v=0")
    command = [program, *flags, *more, f"--user-data-dir={profile}", "--window-size=1200,900", *args]
    return subprocess.run(command, text=True, capture_output=True, timeout=300, check=False)
