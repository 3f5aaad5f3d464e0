"""What is shown to the API server with each request: nothing, a token, a token file, or what a plugin prints.

Made by config.py. client.py asks before each request and tells of a 401. Makes no requests.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import os
from collections.abc import Mapping
from typing import Any, Protocol

from berth_core.errors import InputError, UnauthorizedError

from .tls import Pair, Pem

PLUGIN_SECONDS = 60.0
#: A plugin's credential is replaced this long before it ends: clocks differ, and requests take time.
EARLY = dt.timedelta(seconds=30)
PLUGIN_API = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")


class Credentials(Protocol):
    """What a request carries besides the connection's own certificate."""

    async def headers(self) -> dict[str, str]:
        """Headers for the next request. Raises InputError or UnauthorizedError when there is nothing to show."""

    def refused(self) -> bool:
        """The API server said 401. True when asking once more may show something newer."""

    def pair(self) -> Pair | None:
        """A client certificate that came with the credentials."""


class Static:
    """Headers that never change; the certificate is the connection's own."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        self._headers = dict(headers)

    async def headers(self) -> dict[str, str]:
        return dict(self._headers)

    def refused(self) -> bool:
        return False

    def pair(self) -> Pair | None:
        return None


class TokenFile(Static):
    """A bearer token that somebody else keeps fresh in a file: read again whenever the file has changed."""

    def __init__(self, path: str, headers: Mapping[str, str]) -> None:
        super().__init__(headers)
        self._path, self._file = path, Pem(path=path)
        self._stamp: tuple[object, ...] = ()
        self._token = ""

    async def headers(self) -> dict[str, str]:
        stamp = self._file.stamp
        if stamp != self._stamp:
            self._token = self._read()
            self._stamp = stamp
        return {**await super().headers(), "authorization": f"Bearer {self._token}"}

    def refused(self) -> bool:
        return self._file.stamp != self._stamp

    def _read(self) -> str:
        try:
            with open(self._path, encoding="ascii") as file:
                token = file.read().strip()
        except (OSError, ValueError) as exc:
            raise InputError(f"the token file {self._path} cannot be read: {exc}", path=self._path) from exc
        if not token:
            raise InputError(f"the token file {self._path} is empty", path=self._path)
        return token


class Plugin(Static):
    """A command that prints an ExecCredential (client.authentication.k8s.io); kept until it ends or is refused."""

    def __init__(self, spec: Mapping[str, Any], headers: Mapping[str, str], info: Mapping[str, Any] | None) -> None:
        """``spec`` is a kubeconfig's ``exec``; ``info`` describes the cluster, where the spec asks for that."""
        super().__init__(headers)
        self._argv = [str(spec["command"]), *(str(arg) for arg in spec.get("args") or ())]
        self._environ = {str(entry["name"]): str(entry["value"]) for entry in spec.get("env") or ()}
        self._api, self._hint = str(spec["apiVersion"]), str(spec.get("installHint") or "")
        described = {"cluster": dict(info)} if info is not None else {}
        self._asked = {
            "apiVersion": self._api,
            "kind": "ExecCredential",
            "spec": {"interactive": False, **described},
        }
        self._status: dict[str, Any] | None = None
        self._running: asyncio.Future[dict[str, Any]] | None = None

    async def headers(self) -> dict[str, str]:
        if self._status is None or _ends(self._status):
            self._status = await self._once()
        token = self._status.get("token")
        return {**await super().headers(), **({"authorization": f"Bearer {token}"} if token else {})}

    def refused(self) -> bool:
        self._status = None
        return True

    def pair(self) -> Pair | None:
        status = self._status or {}
        cert, key = status.get("clientCertificateData"), status.get("clientKeyData")
        return (Pem(data=str(cert).encode()), Pem(data=str(key).encode())) if cert and key else None

    async def _once(self) -> dict[str, Any]:
        """One run of the plugin, however many requests wait for it."""
        if self._running is None:
            self._running = asyncio.ensure_future(self._run())
            self._running.add_done_callback(self._ran)
        return await asyncio.shield(self._running)

    def _ran(self, done: asyncio.Future[dict[str, Any]]) -> None:
        self._running = None
        if not done.cancelled():
            done.exception()  # every waiter has it; without one it is not worth a complaint

    async def _run(self) -> dict[str, Any]:
        name = self._argv[0]
        environ = {**os.environ, **self._environ, "KUBERNETES_EXEC_INFO": json.dumps(self._asked)}
        pipe = asyncio.subprocess.PIPE
        try:
            process = await asyncio.create_subprocess_exec(
                *self._argv, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe, env=environ
            )
        except OSError as exc:
            hint = f"; {self._hint}" if self._hint else ""
            raise InputError(f"the credential plugin {name} cannot be started: {exc.strerror}{hint}") from exc
        reading = asyncio.ensure_future(process.communicate())
        await asyncio.wait({reading}, timeout=PLUGIN_SECONDS)
        if not reading.done():
            process.kill()
            await reading
            raise UnauthorizedError(f"the credential plugin {name} printed nothing within {PLUGIN_SECONDS:.0f} s")
        output, complaint = reading.result()
        if process.returncode != 0:
            why = complaint.decode(errors="replace").strip()[-500:]
            raise UnauthorizedError(f"the credential plugin {name} failed with status {process.returncode}: {why}")
        return self._read(output)

    def _read(self, output: bytes) -> dict[str, Any]:
        wrong = f"the credential plugin {self._argv[0]} printed no {self._api} ExecCredential with a status"
        try:
            answer = json.loads(output)
        except ValueError as exc:
            raise UnauthorizedError(wrong) from exc
        status = answer.get("status") if isinstance(answer, dict) else None
        if not isinstance(status, dict) or answer.get("apiVersion") != self._api:
            raise UnauthorizedError(wrong)
        if not (status.get("token") or (status.get("clientCertificateData") and status.get("clientKeyData"))):
            raise UnauthorizedError(f"the credential plugin {self._argv[0]} printed neither a token nor a certificate")
        return status


def _ends(status: Mapping[str, Any]) -> bool:
    text = status.get("expirationTimestamp")
    if not text:
        return False
    try:
        end = dt.datetime.fromisoformat(str(text).replace("Z", "+00:00"))
    except ValueError:
        return False
    if end.tzinfo is None:
        end = end.replace(tzinfo=dt.timezone.utc)
    return dt.datetime.now(dt.timezone.utc) + EARLY >= end
