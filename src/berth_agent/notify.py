"""Tells systemd how the agent is: READY=1, STATUS=, WATCHDOG=1, over the socket that it names in the environment.

Called by `__main__` and `agent`. Without that socket nothing happens. Protocol: sd_notify(3).
"""

from __future__ import annotations

import os
import socket
from collections.abc import MutableMapping


class Notifier:
    """One service manager, or none.

    What it has put into the environment is taken out: it is meant for the agent, and a program that it starts
    (systemd's own among them do) would speak to it in the agent's name.
    """

    def __init__(self, environ: MutableMapping[str, str] | None = None) -> None:
        environ = os.environ if environ is None else environ
        self.address = environ.pop("NOTIFY_SOCKET", "")
        microseconds = environ.pop("WATCHDOG_USEC", "")
        pid = environ.pop("WATCHDOG_PID", "")
        ours = not pid or pid == str(os.getpid())
        #: seconds between signs of life; 0 where nobody waits for them
        self.watchdog = int(microseconds) / 2e6 if microseconds.isdigit() and ours else 0.0

    def tell(self, *lines: str) -> None:
        """Send lines as ``READY=1``. A service manager that does not listen is no reason to fail."""
        if not self.address:
            return
        address = "\0" + self.address[1:] if self.address.startswith("@") else self.address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
                channel.sendto("\n".join(lines).encode(), address)
        except OSError:
            return
