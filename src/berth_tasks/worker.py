"""What runs in the pod of a function: it calls it, and leaves the result. The standard library, and nothing else.

TaskExecutor (berth_tasks.program) sends this very text into the pod, as `python3 -c TEXT CALL`: the image needs Python
3.11 and the function's own module. By hand: python3 -m berth_tasks.worker CALL,
with a CALL such as {"function": "math:sqrt", "each": [[[2], {}]]}.

What is left in the container's termination message is one JSON object: {"result": ...}; {"sent": digest}, where the
result went to the program's own endpoint; {"error": {...}}, the function's exception; {"refused": words}. Exit status:
0, 1 for an exception, 2 for what is refused.
"""

from __future__ import annotations

import base64
import hashlib
import importlib
import json
import os
import pickle
import ssl
import sys
import time
import traceback
import urllib.error
import urllib.request
from typing import Any

#: As much as a kubelet keeps of what a container leaves.
MOST_LEFT = 4096
#: Between two tries to send a result.
PAUSE = 1.0


class Refused(Exception):
    """No result, and not the function's fault alone: the words say what to do."""


def main(text: str, environ: dict[str, str]) -> int:
    """Call, and leave what came of it."""
    try:
        left, status = _called(json.loads(text), environ), 0
    except Refused as exc:
        left, status = {"refused": str(exc)[:1000]}, 2
    except Exception as exc:  # noqa: BLE001 - the function's own, which the program is told of
        left, status = _of_exception(exc), 1
    if status:
        sys.stderr.write(f"{left.get('refused') or left['error']['traceback']}\n")
    with open(environ.get("BERTH_TERMINATION_LOG") or "/dev/termination-log", "w", encoding="ascii") as file:
        file.write(json.dumps(left))
    return status


def _called(call: dict[str, Any], environ: dict[str, str]) -> dict[str, Any]:
    function = _function(call["function"])
    each = call.get("each") or pickle.loads(base64.b64decode(call["pickle"]))  # noqa: S301 - of who wrote the pod
    values = [function(*args, **kwargs) for args, kwargs in each]
    return _leave(values if call.get("many") else values[0], environ)


def _function(path: str) -> Any:
    module, _colon, name = path.partition(":")
    try:
        found = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as exc:
        raise Refused(
            f"{path} cannot be imported in this image, with Python {sys.version.split()[0]} ({exc}): put its module"
            " into the image, where Python finds it (PYTHONPATH)"
        ) from exc
    return found


def _leave(value: object, environ: dict[str, str]) -> dict[str, Any]:
    """Of a result: itself where it is small, or the digest of what was sent."""
    check_json(value, "the result")
    text = json.dumps({"result": value}, allow_nan=False)
    url, most = environ.get("BERTH_RESULTS_URL"), int(environ.get("BERTH_RESULTS_MOST") or MOST_LEFT)
    if len(text) > most:
        raise Refused(
            f"the result is too large: {len(text)} bytes of JSON, and at most {most} are taken; have the function"
            " write it somewhere and return where"
        )
    return _sent(text.encode("ascii"), url, environ) if url else json.loads(text)


def check_json(value: object, where: str) -> None:
    """Refuse what JSON does not carry as it is: only a tuple becomes a list."""
    if isinstance(value, dict):
        for key, one in value.items():
            if not isinstance(key, str):
                raise Refused(f"{where} has a key {key!r} of type {type(key).__name__}: JSON has only strings")
            check_json(one, where)
    elif isinstance(value, (list, tuple)):
        for one in value:
            check_json(one, where)
    elif isinstance(value, float) and value - value != 0:
        raise Refused(f"{where} has {value!r}, which JSON has not")
    elif not (value is None or isinstance(value, (str, int, float))):
        raise Refused(f"{where} has a {type(value).__name__}: JSON carries None, bool, int, float, str, list and dict")


def _sent(body: bytes, url: str, environ: dict[str, str]) -> dict[str, Any]:
    """Send the result to the program. Tried again while nobody answers, until the deadline."""
    context = ssl.create_default_context(cadata=environ["BERTH_RESULTS_CA"])
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    headers = {"Authorization": "Bearer " + environ["BERTH_RESULTS_TOKEN"], "Content-Type": "application/json"}
    end = time.monotonic() + float(environ["BERTH_RESULTS_SECONDS"])
    while True:
        request = urllib.request.Request(  # noqa: S310 - the program has seen to it that it is https
            url + environ["BERTH_POD_UID"], body, headers, method="PUT"
        )
        try:
            with opener.open(request, timeout=max(1.0, end - time.monotonic())):
                return {"sent": hashlib.sha256(body).hexdigest()}
        except urllib.error.HTTPError as exc:
            words = f"{exc.code} {exc.read(512).decode('utf-8', 'replace').strip()}"
            if exc.code < 500:
                raise Refused(f"the program does not take the result: {words}") from exc
        except OSError as exc:
            words = str(exc)
        if time.monotonic() + PAUSE > end:
            raise Refused(f"the program cannot be reached at {url} ({words}): can pods connect to it?")
        time.sleep(PAUSE)


def _of_exception(exc: Exception) -> dict[str, Any]:
    """What is told of an exception, at most `MOST_LEFT` bytes: of its traceback the end, of its words the beginning."""
    kind = type(exc)
    try:
        check_json(exc.args, "it")
        args = list(exc.args)
    except Refused:
        args = None
    text, lines = str(exc), "".join(traceback.format_exception(exc))
    while True:
        told = {"type": f"{kind.__module__}:{kind.__qualname__}"[:256], "text": text, "args": args, "traceback": lines}
        if len(json.dumps({"error": told})) <= MOST_LEFT:
            return {"error": told}
        if max(len(lines), len(text)) < 256:
            args = None
        if len(lines) > len(text):
            lines = lines[len(lines) - len(lines) // 2 :]
        else:
            text = text[: len(text) // 2]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], dict(os.environ)))
