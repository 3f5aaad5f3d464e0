"""One extender of the configuration: where it is, whom it concerns, and questions to it over HTTP.

opinions.py asks. An extender's certificate is verified unless its `tlsConfig` says `insecure`: where kube-scheduler
takes `enableHTTPS` without an authority for leave to verify nothing, the machine's own authorities are asked here.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from berth_core.config import extender_address
from berth_core.config.connections import Extender
from berth_core.config.extender_address import address_of
from berth_core.errors import InputError
from berth_core.framework.binding import Binding
from berth_core.framework.contract import SKIPPED, SUCCESS, Status
from berth_core.model.pod import PodInfo
from berth_kube.exchange import Endpoint, Response, WireError
from berth_kube.http1 import FramingError
from berth_kube.tls import Pem, Tls
from berth_kube.wire import Wire

from ..binding import is_bound
from .messages import ExtenderError, binding, bound, decode

_log = logging.getLogger(__name__)

#: One pod at a time is put before it, and binds go on beside that.
CONNECTIONS = 4
_HEADERS = {"content-type": "application/json", "accept": "application/json", "user-agent": "berth-scheduler"}
T = TypeVar("T")


def judges(extenders: Sequence[HttpExtender], pod: PodInfo) -> list[HttpExtender]:
    """Those that have a word about where the pod goes, in the order of the configuration."""
    return [one for one in extenders if one.judges and one.concerns(pod)]


def check_files(extenders: Sequence[Extender]) -> None:
    """Refuse a certificate or an authority that cannot be used on this host. Raises InputError that names the file."""
    for index, one in enumerate(extenders):
        at = address_of(one, f"extenders[{index}]")
        if at.https:
            _tls(at, f"extenders[{index}].tlsConfig ({one.url_prefix})").context()


class HttpExtender:
    """Made inside a running loop, and closed there."""

    def __init__(self, config: Extender) -> None:
        self.config = config
        at = address_of(config, str(self))
        self._tls = _tls(at, str(self))
        endpoint = Endpoint(at.host, at.port, at.prefix, at.https, at.server_name or None)
        self._wire = Wire(endpoint, self._tls.context if at.https else lambda: None, CONNECTIONS)
        self._loop = asyncio.get_running_loop()

    def __str__(self) -> str:
        return f"extender {self.config.url_prefix}"

    async def close(self) -> None:
        """Questions under way fail."""
        await self._wire.close()

    @property
    def judges(self) -> bool:
        """Whether it has a word about nodes; one that only binds is asked when the choice was made."""
        return bool(self.config.filter_verb or self.config.prioritize_verb or self.config.preempt_verb)

    def concerns(self, pod: PodInfo) -> bool:
        """Whether it has a word about the pod: all pods are its, or those that ask for one of its resources."""
        managed = self.config.managed
        return not managed or any(asked == name for asked, _amount in pod.requests for name, _ignored in managed)

    async def ask(self, verb: str, document: Any, read: Callable[[Any], T]) -> T:
        """The answer to one question, as ``read`` takes it. Raises ExtenderError."""
        try:
            response = await self._send(verb, json.dumps(document).encode())
            if response.head.status != 200:
                said = response.body[:200].decode("utf-8", "replace").strip()
                raise ExtenderError(f"HTTP status {response.head.status}, expected 200: {said}")
            return read(decode(response.body))
        except (ExtenderError, InputError) as exc:  # a certificate that cannot be read, too
            raise ExtenderError(f"{self}: {verb}: {exc.message}") from exc

    async def _send(self, verb: str, body: bytes) -> Response:
        """Once more where the connection had been closed for being idle: then nothing was asked."""
        deadline = self._loop.time() + self.config.timeout
        try:
            await self._wire.enter(deadline)
            try:
                try:
                    return await self._exchange(verb, body, deadline)
                except WireError as exc:
                    if not exc.kept or self._loop.time() >= deadline:
                        raise
                    self._wire.forget_idle()
                    return await self._exchange(verb, body, deadline)
            finally:
                self._wire.leave()
        except WireError as exc:
            raise ExtenderError(f"no answer within {self.config.timeout:g} s: {exc.text}") from exc
        except FramingError as exc:
            raise ExtenderError(f"the answer is not HTTP: {exc}") from exc

    async def _exchange(self, verb: str, body: bytes, deadline: float) -> Response:
        return await self._wire.exchange("POST", f"/{verb}", _HEADERS, body, deadline)

    async def bind(self, one: Binding) -> Status:
        """Bind a pod in the place of Bind plugins. SKIP where it fails and may be ignored. Raises ExtenderError.

        It is a write, though not the scheduler's own: who leads no more does not ask for it, and gets what the client
        raises then.
        """
        one.api.check_write()
        try:
            await self.ask(self.config.bind_verb, binding(one.pod, one.placement.node), bound)
        except ExtenderError as exc:
            if await is_bound(one):  # done, and the answer was lost or is wrong
                return SUCCESS
            if not self.config.ignorable:
                raise
            _log.warning("pod %s: %s; it is bound without", one.key, exc.message)
            return SKIPPED
        return SUCCESS


def _tls(at: extender_address.Address, source: str) -> Tls:
    return Tls(source, _pem(at.trust), at.pair and (_pem(at.pair[0]), _pem(at.pair[1])), at.insecure)


def _pem(given: extender_address.Pem | None) -> Any:
    return given and Pem(*given)
