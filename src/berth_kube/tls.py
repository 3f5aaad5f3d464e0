"""The TLS side of an identity, a client's and a server's: whom it trusts, and the certificate that it shows.

Made by config.py and the composition roots. wire.py and listening.py ask for the context of each new connection.
Files are read again when they change, so that rotated certificates are taken up by the next connection. Connects
nowhere. A key that is given as data never lies in a folder: OpenSSL reads it from memory of this process.
"""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from berth_core.errors import InputError

_log = logging.getLogger(__name__)


class Pem(NamedTuple):
    """PEM text, given as a file or as data: one of the two."""

    path: str | None = None
    data: bytes | None = None

    @property
    def stamp(self) -> tuple[object, ...]:
        """Changes when the content does (a replaced file is another inode)."""
        if self.path is None:
            return ()
        try:
            seen = os.stat(self.path)
        except OSError as exc:
            return (exc.errno,)
        return (seen.st_ino, seen.st_mtime_ns, seen.st_size)


Pair = tuple[Pem, Pem]


class Tls:
    """Contexts for one server, made anew when a file has changed or `use` brings another certificate."""

    def __init__(self, source: str, trust: Pem | None, pair: Pair | None, insecure: bool = False) -> None:
        """``trust``: authorities (None: the machine's own); ``pair``: what is shown; ``source``: for messages."""
        self._source, self._trust, self._pair, self._insecure = source, trust, pair, insecure
        self._made: tuple[object, ssl.SSLContext] | None = None

    def trusting(self, trust: Pem) -> Tls:
        """The same identity for another server, whose certificate these authorities have signed."""
        return Tls(self._source, trust, self._pair)

    def use(self, pair: Pair) -> bool:
        """Show this certificate from the next connection on. False when it is shown already."""
        changed = pair != self._pair
        self._pair = pair
        return changed

    def context(self) -> ssl.SSLContext:
        """The context for a new connection. Raises InputError naming the file that cannot be used."""
        files = (self._trust, *(self._pair or ()))
        stamp = (self._pair, [pem.stamp for pem in files if pem is not None])
        if self._made is None or self._made[0] != stamp:
            self._made = (stamp, self._make())
        return self._made[1]

    def _make(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self._insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        else:
            self._load_trust(context)
        if self._pair is not None:
            with readable(self._pair[0]) as cert, readable(self._pair[1]) as key:
                try:
                    context.load_cert_chain(cert, key)
                except (OSError, ValueError) as exc:
                    raise self._unusable("client certificate or key", self._pair[0].path, exc) from exc
        return context

    def _load_trust(self, context: ssl.SSLContext) -> None:
        trust = self._trust
        if trust is None:
            context.load_default_certs()
            return
        try:
            if trust.path is not None:
                context.load_verify_locations(cafile=trust.path)
            else:
                context.load_verify_locations(cadata=(trust.data or b"").decode("ascii"))
        except (OSError, ValueError) as exc:
            raise self._unusable("certificate authority", trust.path, exc) from exc

    def _unusable(self, what: str, path: str | None, exc: Exception) -> InputError:
        where = f" {path}" if path else ""
        return InputError(f"the {what}{where} of {self._source} cannot be used: {exc}; expected PEM", path=path)


class ServerTls:
    """The contexts of a server: each new connection is shown today's certificate and asked for today's authorities.

    ``client_ca``: a file of authorities; who has no certificate of theirs does not get in. Files that cannot be used
    are told of once, and the last good ones stay. Raises InputError when there are none yet.
    """

    def __init__(self, cert: str, key: str, client_ca: str = "") -> None:
        self._files = tuple(Pem(path=path) for path in (cert, key, client_ca) if path)
        self._told = ""
        try:
            self._made = self._stamps(), self._make()
        except (OSError, ValueError) as exc:
            raise InputError(
                f"the serving certificate {cert} with key {key}{self._asked} cannot be used: {exc}"
            ) from exc

    @property
    def _asked(self) -> str:
        return f" and client authorities {self._files[2].path}" if self._files[2:] else ""

    def context(self) -> ssl.SSLContext:
        """The context for a new connection. None outlives its files: a session of the last one is not resumed."""
        stamps = self._stamps()
        if stamps != self._made[0]:
            try:
                self._made, self._told = (stamps, self._make()), ""
            except (OSError, ValueError) as exc:  # the stamps are kept: the next change is another try
                self._made = stamps, self._made[1]
                if str(exc) != self._told:
                    cert = self._files[0].path
                    _log.error(
                        "serving certificate %s%s cannot be used, the last one stays: %s", cert, self._asked, exc
                    )
                self._told = str(exc)
        return self._made[1]

    def _stamps(self) -> tuple[object, ...]:
        return tuple(pem.stamp for pem in self._files)

    def _make(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        cert, key, *client_ca = (pem.path or "" for pem in self._files)
        context.load_cert_chain(cert, key)
        if client_ca:
            context.load_verify_locations(cafile=client_ca[0])
            context.verify_mode = ssl.CERT_REQUIRED
        return context


@contextmanager
def readable(pem: Pem) -> Iterator[str]:
    """A path from which OpenSSL, which takes only files, can read the PEM while the context is open."""
    if pem.path is not None:
        yield pem.path
        return
    if hasattr(os, "memfd_create"):  # also where the disk is full, and nothing to remove after a crash
        descriptor, path = os.memfd_create("pem"), None
    else:
        import tempfile  # with what it imports, half a megabyte of an agent that may never need it

        descriptor, path = tempfile.mkstemp()
    try:
        os.write(descriptor, pem.data or b"")
        yield path or f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
        if path:
            os.unlink(path)
