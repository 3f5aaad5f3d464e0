"""A network that can be broken: a TCP proxy in threads of its own. And a port for whoever is to listen.

What goes through is not looked at (TLS stays end to end).
"""

from __future__ import annotations

import random
import socket
import threading
from contextlib import suppress


def free_port() -> int:
    """A port that nobody listens at, and that is given to no outgoing connection meanwhile (those are above 32767)."""
    for port in random.sample(range(10000, 20000), 50):
        with socket.socket() as one, suppress(OSError):
            one.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no free port")


class Proxy:
    """Passes connections on to ``(host, port)``: `cut` breaks those that are open, `hold` stops what they carry.

    ``refuse``: new connections are closed at once. Use as a context manager.
    """

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._flowing = threading.Event()
        self._flowing.set()
        self.refuse = False
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._closed = False
        self._lock = threading.Lock()
        self.accepted = 0

    def __enter__(self) -> Proxy:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_exc: object) -> None:
        with self._lock:
            self._closed = True
        self._flowing.set()
        self._listener.close()
        self.cut()

    def cut(self) -> None:
        """Close every open connection, on both sides."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for end in pair:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()

    def hold(self) -> None:
        """Nothing gets through any more, and nothing is closed."""
        self._flowing.clear()

    def release(self) -> None:
        """What was held goes on."""
        self._flowing.set()

    def _accept(self) -> None:
        while not self._closed:
            try:
                near, _address = self._listener.accept()
            except OSError:
                return
            self.accepted += 1
            try:
                if self.refuse:
                    raise ConnectionRefusedError
                far = socket.create_connection(self._target)
            except OSError:
                near.close()
                continue
            with self._lock:
                if self._closed:  # `cut` is over and would not close what was accepted meanwhile
                    near.close()
                    far.close()
                    return
                self._pairs.append((near, far))
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while True:
                data = source.recv(65536)
                self._flowing.wait()
                if not data:
                    break
                sink.sendall(data)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
