"""The etcd behind a control plane of berth-dev: for what an API server would never do by itself, or not so fast."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
from typing import Any


class Etcd:
    """One connection as the API server has it. Use as a context manager."""

    def __init__(self, cluster: Any) -> None:
        pki, port = cluster._pki, cluster._control_plane().settings.ports["etcd-http"]
        tls = ssl.create_default_context(cafile=str(pki.authority("etcd-ca").cert))
        pair = pki.client("kube-apiserver", authority="etcd-ca")
        tls.load_cert_chain(pair.cert, pair.key)
        self._connection = http.client.HTTPSConnection("127.0.0.1", port, context=tls, timeout=60)

    def __enter__(self) -> Etcd:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._connection.close()

    def get(self, key: str) -> bytes:
        """The value, as it is stored."""
        (found,) = self._ask("range", key=_text(key.encode()))["kvs"]
        return base64.b64decode(found["value"])

    def put(self, key: str, value: bytes) -> None:
        """Every watch of the object tells it as a change, with a resourceVersion of its own."""
        self._ask("put", key=_text(key.encode()), value=_text(value))

    def _ask(self, call: str, **body: str) -> Any:
        self._connection.request("POST", f"/v3/kv/{call}", json.dumps(body))
        answer = self._connection.getresponse()
        text = answer.read()
        assert answer.status == 200, text
        return json.loads(text)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
