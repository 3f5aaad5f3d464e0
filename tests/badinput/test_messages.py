"""Who cannot be asked, and why: credentials that no header carries, missing plugins, hosts of another kind."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.berth.stateful.plugins.module_utils._glue.auth import load_auth
from ansible_collections.berth.stateful.plugins.module_utils._glue.client import ApiClient
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.errors import InputError, NotFoundError
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model.resources import LOCAL_DISK
from tests.badinput.asking import answer

HOST = {"host": "https://127.0.0.1:1"}
NOT_FOUND = b"404 page not found\n"


@pytest.mark.parametrize(
    ("options", "option"),
    [
        ({"api_key": "secret-1\n"}, "api_key"),
        ({"api_key": "secret-1\r\nX: y"}, "api_key"),
        ({"api_key": "secret-1é"}, "api_key"),
        ({"api_key": "x", "impersonate_user": "secret-1\n"}, "impersonate_user"),
        ({"api_key": "x", "impersonate_groups": ["a", "secret-1\n"]}, "impersonate_groups"),
        ({"api_key": "x", "proxy_headers": {"user_agent": "secret-1\n"}}, "proxy_headers.user_agent"),
        ({"username": "u", "password": "secret-1€"}, "password"),
    ],
)
def test_what_no_header_carries_is_refused_and_not_repeated(options: dict[str, Any], option: str) -> None:
    with pytest.raises(InputError, match=f"^{option} has a ") as refused:
        load_auth({**HOST, **options}, {})
    assert "secret-1" not in refused.value.message


def test_the_token_of_a_variable_and_of_a_kubeconfig_is_looked_at_too() -> None:
    with pytest.raises(InputError, match=r"^api_key has a line break"):
        load_auth(HOST, {"K8S_AUTH_API_KEY": "secret-1\n"})
    with pytest.raises(InputError, match=r"^the token of the kubeconfig .* has a line") as refused:
        load_auth({"kubeconfig": kubeconfig({"token": "secret-1\n"})}, {})
    assert "secret-1" not in refused.value.message


@pytest.mark.parametrize("host", ["nowhere", "https://", "https://h:port", "https://h:99999", "https://h\n", "ftp://h"])
def test_a_host_that_is_no_url(host: str) -> None:
    with pytest.raises(InputError, match=r"^host .* is not a URL: expected https://NAME:PORT"):
        ApiClient(load_auth({"host": host, "api_key": "x"}, {}), pytest.fail)


def test_a_proxy_that_is_no_url() -> None:
    with pytest.raises(InputError, match=r"^proxy is no URL of a proxy: expected http://NAME:PORT"):
        ApiClient(load_auth({**HOST, "api_key": "x", "proxy": "gopher://p"}, {}), pytest.fail)


def kubeconfig(user: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "one",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "contexts": [{"name": "one", "context": {"cluster": "c", "user": "ops"}}],
        "users": [{"name": "ops", "user": user}],
    }


def plugin(command: str, *args: str) -> dict[str, Any]:
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": command, "args": list(args)}}


@pytest.mark.parametrize("as_file", [False, True])
@pytest.mark.parametrize(
    ("user", "words"),
    [
        (
            plugin("berth-no-such-plugin"),
            "the exec credential plugin 'berth-no-such-plugin' of user 'ops' was not found",
        ),
        (
            plugin("sh", "-c", "echo no ticket >&2; exit 3"),
            "'sh' of user 'ops' failed: exec: process returned 3. no ticket",
        ),
        (plugin("true"), "'true' of user 'ops' failed: exec: failed to decode"),
    ],
)
def test_an_exec_plugin_that_gives_no_credentials(
    user: dict[str, Any], words: str, as_file: bool, tmp_path: Path
) -> None:
    given: Any = kubeconfig(user)
    if as_file:
        path = tmp_path / "config"
        path.write_text(yaml.safe_dump(given), encoding="utf-8")
        given = str(path)
    with pytest.raises(InputError) as refused:
        load_auth({"kubeconfig": given}, {})
    assert words in refused.value.message


def test_credentials_that_are_named_need_no_plugin() -> None:
    auth = load_auth({"kubeconfig": kubeconfig(plugin("berth-no-such-plugin")), "api_key": "mine"}, {})
    assert auth.configuration.get_api_key_with_prefix("BearerToken") == "Bearer mine"


@contextlib.contextmanager
def serving(answers: dict[str, tuple[int, bytes]]) -> Iterator[ApiClient]:
    """A client of a server that gives these answers by path, and else that of the empty path."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, data = answers.get(self.path.partition("?")[0], answers[""])
            self.send_response(status)
            if status == 302:
                self.send_header("location", "/login")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        host = f"http://127.0.0.1:{server.server_address[1]}"
        yield ApiClient(load_auth({"host": host, "api_key": "x"}, {}), pytest.fail)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ({"": (404, b"<html>Not Found</html>")}, "answers 404"),
        ({"": (404, NOT_FOUND)}, "answers 404"),
        ({"": (404, NOT_FOUND), "/version": (404, b'{"message": "no"}')}, "answers 404"),
        ({"": (200, b"<html>Welcome</html>")}, "no JSON object"),
        ({"": (200, b'{"status": "up"}')}, "answers a list of localdisks with something else"),
        ({"": (302, b"")}, "answers 302, to go to /login"),
    ],
)
def test_a_host_that_is_no_kubernetes_is_said_to_be_none(answers: dict[str, tuple[int, bytes]], words: str) -> None:
    with serving(answers) as client, pytest.raises(InputError) as refused:
        client.list(LOCAL_DISK)
    assert client.server()[0] in refused.value.message
    assert "answers, but is no Kubernetes API server" in refused.value.message
    assert words in refused.value.message


@pytest.mark.parametrize("version", [(200, b'{"gitVersion": "v1.36.0"}'), (403, b'{"kind": "Status", "code": 403}')])
def test_a_kubernetes_without_our_resources_is_still_told_to_install_them(version: tuple[int, bytes]) -> None:
    with (
        serving({"": (404, NOT_FOUND), "/version": version}) as client,
        pytest.raises(NotFoundError, match="run berth"),
    ):
        client.list(LOCAL_DISK)


class Elsewhere:
    """A cluster whose only LocalDisk is one of node h2."""

    written = 0
    requests: Mapping[str, int] = {}

    def list(self, resource: object, fields: str | None = None, **_selectors: object) -> list[dict[str, Any]]:
        return [] if fields else [self.find(resource, "d0")]

    def find(self, _resource: object, name: str) -> dict[str, Any]:
        spec = {"nodeName": "h2", "identity": {"serial": "S", "size": 1}}
        return {"metadata": {"name": name, "uid": "u", "resourceVersion": "1"}, "spec": spec}


IDENTITY = {"serial": "S1", "size": "1Gi"}


@pytest.mark.parametrize(
    "options",
    [
        {"name": "d0", "node_name": "h1", "reserved": True},
        {
            "node_name": "h1",
            "disks": [{"identity": {"serial": "S2", "size": "1"}}, {"name": "d0", "identity": IDENTITY}],
        },
    ],
)
def test_a_disk_of_another_node_is_said_to_be_there_before_anything_is_written(options: dict[str, Any]) -> None:
    result = answer("local_disk", options, Elsewhere())
    assert result["failed"]
    assert "LocalDisk d0: it is a disk of node h2, and a disk does not change its node (asked for: h1)" in result["msg"]
    assert "no identity" not in result["msg"]
