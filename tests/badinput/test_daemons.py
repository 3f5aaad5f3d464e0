"""Flags and files that cannot be meant: exit status 2 and one line that names them; nothing is connected to.

Each command runs in this process, with a kubeconfig whose server nobody is: what is refused is refused before.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import importlib
import logging
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import REGISTRY

from berth_core.config.configuration import SchedulerConfiguration
from berth_core.errors import InputError
from berth_core.model.addresses import is_host
from berth_scheduler.configuration import Configurations
from berth_scheduler.consulted.extender import check_files
from berth_scheduler.settings import Settings

MAINS = {
    "berth-agent": "berth_agent.__main__",
    "berth-controller": "berth_controller.__main__",
    "berth-scheduler": "berth_scheduler.__main__",
    "kubectl-berth": "berth_cli.__main__",
}
KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: here
contexts: [{name: here, context: {cluster: here, user: me}}]
clusters: [{name: here, cluster: {server: "https://127.0.0.1:9"}}]
users: [{name: me, user: {token: x}}]
"""
SCHEDULER = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{schedulerName: berth-scheduler}]
"""
EXTENDER = "extenders: [{urlPrefix: 'https://x.example:1/', filterVerb: f, tlsConfig: {caFile: /nope}}]\n"
SAME_TWICE = "node: h1\ndisks:\n  - {wwn: '0x5000c500a1b2c3d4'}\n  - {wwn: 5000C500A1B2C3D4, serial: S1}\n"
FILES = {
    "kubeconfig": KUBECONFIG,
    "server.kube": KUBECONFIG.replace("127.0.0.1", "a b"),
    "half.kube": KUBECONFIG.replace("127.0.0.1:9", "[::1"),
    "authority.kube": KUBECONFIG.replace(':9"', ':9", certificate-authority-data: aGk='),
    "token.kube": KUBECONFIG.replace("token: x", "token: \u00e9"),
    "user.kube": KUBECONFIG.replace("user: {token: x}", "user: 5"),
    "space.kube": KUBECONFIG.replace("user: me}", "user: me, namespace: A B}"),
    "agent.yaml": "node: h1\nmetrics: {port: 0}\n",
    "file": "x\n",
    "twice.yaml": SAME_TWICE,
    "names.yaml": "disks:\n  - {wwn: a, name: d1}\n  - {wwn: b, name: d1}\n",
    "node.yaml": "node: No Such\n",
    "address.yaml": "metrics: {address: not an address}\n",
    "broken.yaml": "a: [\n b: }\n",
    "date.yaml": "a: 2026-99-99\n",
    "binary": "\x00\x01",
    "list.yaml": "- 1\n",
    "extender.yaml": SCHEDULER + EXTENDER,
    "lease.yaml": SCHEDULER + "leaderElection: {resourceName: 'A B'}\n",
    "space.yaml": SCHEDULER + "leaderElection: {resourceNamespace: A.B}\n",
    "cluster.yaml": "kind: Node\napiVersion: v1\nmetadata: {name: n1}\n",
    "nameless.yaml": "- {serial: x}\n",
    "typed.yaml": "- {name: d1, node_name: [n1]}\n",
    "identity.yaml": "- {name: d1, identity: {size: much}}\n",
}
ALONE = "--no-leader-elect"
_CAPABILITY_VERSION_3, _DAC_OVERRIDE, _DAC_READ_SEARCH = 0x20080522, 1 << 1, 1 << 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("badinput")
    for name, text in FILES.items():
        (made / name).write_text(text)
    (made / "directory").mkdir()
    return made


@pytest.fixture(autouse=True)
def _surroundings(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Iterator[None]:
    """No setting from outside; the log as it was, because each command sets it up for itself."""
    for name in os.environ:
        if name.startswith(("BERTH_", "KUBE", "NODE_NAME", "NOTIFY_SOCKET")):
            monkeypatch.delenv(name)
    monkeypatch.chdir(folder)
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def run(command: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Exit status and stderr of a command line; argparse's own usage text is left out."""
    shutil.rmtree("state", ignore_errors=True)  # where an agent keeps the last good configuration
    program, *argv = command.split("|")
    argv = [*argv[:1], *ACCESS.get((program, argv[0]), ()), *argv[1:]] if argv[:1] != ["-"] else argv[1:]
    if program == "berth-agent" and "check-config" not in argv and "--config" not in argv:
        argv += ["--config", "agent.yaml"]
    if program == "berth-controller":
        argv = ["--kubeconfig", "kubeconfig", *argv]
    try:
        status = importlib.import_module(MAINS[program]).main(argv)
    except SystemExit as exc:
        status = exc.code
    told = capsys.readouterr().err
    usage, error, rest = told.partition(": error: ")
    return status, rest if error and usage.startswith("usage: ") else told


AGENT = ("--kubeconfig", "kubeconfig", "--state-directory", "state")
ACCESS = {
    ("berth-agent", "once"): AGENT,
    ("berth-agent", "run"): AGENT,
    ("berth-scheduler", "run"): ("--kubeconfig", "kubeconfig"),
    ("berth-scheduler", "extend"): ("--kubeconfig", "kubeconfig"),
    **{("kubectl-berth", name): ("--kubeconfig", "kubeconfig") for name in ("show", "explain", "drift", "top")},
}


@contextlib.contextmanager
def without_override() -> Iterator[None]:
    """Root, too, is asked for the permissions of files: the thread gives up CAP_DAC_* meanwhile (capset(2))."""
    libc = ctypes.CDLL(None, use_errno=True)
    header, before = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0), (ctypes.c_uint32 * 6)()
    assert libc.capget(header, before) == 0
    less = (ctypes.c_uint32 * 6)(*before)
    less[0] &= ~(_DAC_OVERRIDE | _DAC_READ_SEARCH)
    assert libc.capset(header, less) == 0
    try:
        yield
    finally:
        assert libc.capset(header, before) == 0


def refused(command: str, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    known = set(REGISTRY._collector_to_names)
    status, told = run(command, capsys)
    for figure in set(REGISTRY._collector_to_names) - known:  # a process has them once
        REGISTRY.unregister(figure)
    assert "Traceback" not in told
    assert status == 2, told
    assert len(told.splitlines()) == 1, told
    for each in words:
        assert each in told


SHORT = (
    # -- berth-agent
    ("berth-agent|once|--state-directory|file", "--state-directory file", "expected a directory"),
    ("berth-agent|run|--state-directory|file/below", "is no directory"),
    ("berth-agent|run|--state-directory|", "--state-directory", "is empty"),
    ("berth-agent|once|--state-directory|file|--config|missing", "--state-directory"),
    ("berth-agent|once|--node-name|NoSuch Node", "--node-name", "NODE_NAME", "'NoSuch Node'", "DNS-1123 subdomain"),
    ("berth-agent|run|--node-name|h1..h2", "--node-name", "no Node can be named"),
    ("berth-agent|run|--namespace|A B", "--namespace is 'A B'", "no namespace can be named", "DNS-1123 label"),
    ("berth-agent|run|--namespace|", "--namespace is ''"),
    ("berth-agent|run|--tree|missing", "--tree missing cannot be read", "expected a directory"),
    ("berth-agent|run|--host-root|file", "--host-root file"),
    ("berth-agent|run|--renew-token|missing", "--renew-token missing cannot be read"),
    ("berth-agent|run|--ready-file|directory", "--ready-file directory is a directory"),
    ("berth-agent|run|--ready-file|missing/ready", "--ready-file missing/ready", "expected the path of a file"),
    ("berth-agent|once|--config|missing", "missing: cannot be read"),
    ("berth-agent|once|--config|directory", "directory: cannot be read"),
    ("berth-agent|once|--kubeconfig|missing", "the kubeconfig missing cannot be read: No such file"),
    ("berth-agent|once|--config|node.yaml", "node is 'No Such'", "DNS-1123"),
    ("berth-agent|-|check-config|twice.yaml", "twice.yaml:4: disks[1]", "names the disk of disks[0]", "remove one"),
    ("berth-agent|-|check-config|names.yaml", "names.yaml:3: disks[1]: name is 'd1', as of disks[0]"),
    ("berth-agent|-|check-config|node.yaml", "node.yaml:1: node is 'No Such'"),
    ("berth-agent|-|check-config|address.yaml", "metrics.address is 'not an address': expected an IP address"),
    ("berth-agent|-|check-config|missing", "missing: cannot be read"),
    ("berth-agent|-|check-config|directory", "directory: cannot be read"),
    # -- berth-controller
    ("berth-controller|--namespace|A B", "--namespace is 'A B'", "DNS-1123 label"),
    ("berth-controller|--address|not an address", "--address is 'not an address'", "expected an IP address"),
    (f"berth-controller|{ALONE}|--address|192.0.2.1", "cannot listen on 192.0.2.1:9809", "expected an address"),
    ("berth-controller|--address|a..b", "--address is 'a..b'"),
    ("berth-controller|--port|99999", "--port is 99999: expected 0 to 65535"),
    ("berth-controller|--mount-root|/", "--mount-root: ", "expected an absolute path"),
    ("berth-controller|--tls-certificate|file", "belong together"),
    ("berth-controller|--tls-certificate|missing|--tls-key|file", "--tls-certificate missing cannot be read"),
    (f"berth-controller|{ALONE}|--tls-certificate|file|--tls-key|file", "certificate file", "cannot be used"),
    ("berth-controller|--orphan-report-after|60|--orphan-repair-after|5", "--orphan-repair-after is 5", "(60)"),
    ("berth-controller|--leader-elect=perhaps", "--leader-elect"),
    ("berth-controller|--schemas|berths.berth.dev=1", "--schemas is 'berths.berth.dev=1'", "this program knows berths"),
    # -- berth-scheduler
    ("berth-scheduler|run|--namespace|a.b", "--namespace is 'a.b'"),
    ("berth-scheduler|run|--address|not an address", "--address is 'not an address'"),
    (f"berth-scheduler|run|{ALONE}|--address|no-such.invalid", "cannot listen on no-such.invalid:9810"),
    ("berth-scheduler|run|--address|" + 70 * "a", "--address is "),
    ("berth-scheduler|run|--page-port|-1", "--page-port is -1"),
    ("berth-scheduler|run|--renew-token|missing", "--renew-token missing cannot be read"),
    ("berth-scheduler|run|--config|extender.yaml", "/nope of extenders[0].tlsConfig", "cannot be used", "expected PEM"),
    ("berth-scheduler|run|--config|lease.yaml", "leaderElection.resourceName is 'A B'", "no Lease can be named"),
    ("berth-scheduler|run|--config|space.yaml", "leaderElection.resourceNamespace is 'A.B'"),
    ("berth-scheduler|run|--config|broken.yaml", "configuration broken.yaml is not YAML"),
    ("berth-scheduler|run|--config|date.yaml", "configuration date.yaml is not YAML"),
    ("berth-scheduler|run|--config|binary", "configuration binary is not YAML"),
    ("berth-scheduler|run|--config|list.yaml", "expected a KubeSchedulerConfiguration"),
    ("berth-scheduler|extend|--address|0.0.0.0", "--address 0.0.0.0", "--client-ca"),
    ("berth-scheduler|extend|--metrics-address|not an address", "--metrics-address is 'not an address'"),
    ("berth-scheduler|extend|--metrics-port|65536", "--metrics-port is 65536"),
    ("berth-scheduler|extend|--client-ca|missing|--tls-certificate|file|--tls-key|file", "--client-ca missing"),
    ("berth-scheduler|-|simulate", "expected files of a cluster"),
    ("berth-scheduler|-|simulate|broken.yaml", "broken.yaml is neither YAML nor JSON"),
    ("berth-scheduler|-|simulate|date.yaml", "date.yaml is neither YAML nor JSON"),
    ("berth-scheduler|-|simulate|missing", "missing cannot be read"),
    ("berth-scheduler|-|simulate|cluster.yaml|--profile|none", "--profile: expected one of berth-scheduler"),
    ("berth-scheduler|-|simulate|cluster.yaml|--output|xml", "--output", "'xml'"),
    ("berth-scheduler|-|simulate|--openb|missing|file", "missing cannot be read"),
    # -- kubectl-berth
    ("kubectl-berth|show|--kubeconfig|missing", "the kubeconfig missing cannot be read: No such file"),
    ("kubectl-berth|show|--kubeconfig|directory", "the kubeconfig directory cannot be read: Is a directory"),
    ("kubectl-berth|show|--kubeconfig|broken.yaml", "the kubeconfig broken.yaml is not YAML"),
    ("kubectl-berth|show|--kubeconfig|date.yaml", "the kubeconfig date.yaml is not YAML"),
    ("kubectl-berth|show|--kubeconfig|list.yaml", "the kubeconfig list.yaml is not a mapping"),
    ("kubectl-berth|show|--kubeconfig|server.kube", "the server 'https://a b:9'", "expected https://HOST:PORT"),
    ("kubectl-berth|show|--kubeconfig|half.kube", "the server 'https://[::1'", "expected https://HOST:PORT"),
    ("kubectl-berth|show|--kubeconfig|authority.kube", "certificate authority", "cannot be used", "expected PEM"),
    ("kubectl-berth|show|--kubeconfig|token.kube", "token of a user of the kubeconfig token.kube", "ASCII"),
    ("kubectl-berth|show|--kubeconfig|user.kube", "user 'me' of the kubeconfig user.kube is no mapping"),
    ("kubectl-berth|show|--kubeconfig|space.kube", "namespace of the kubeconfig space.kube is 'A B'"),
    ("kubectl-berth|show|--context|nope", "no context 'nope': expected one of here"),
    ("kubectl-berth|show|-n|A B", "--namespace is 'A B'"),
    ("kubectl-berth|show|--app|A B", "--app is 'A B'"),
    ("kubectl-berth|explain|A B", "POD|APP is 'A B'"),
    ("kubectl-berth|tasks|A B", "TASK|BATCH is 'A B'"),
    ("kubectl-berth|top|-o|yaml", "argument -o/--output", "'yaml'"),
    ("kubectl-berth|drift|--declared|missing", "--declared missing cannot be read: No such file"),
    ("kubectl-berth|drift|--declared|directory", "--declared directory cannot be read"),
    ("kubectl-berth|drift|--declared|broken.yaml", "--declared broken.yaml cannot be read", "expected YAML"),
    ("kubectl-berth|drift|--declared|date.yaml", "--declared date.yaml cannot be read"),
    ("kubectl-berth|drift|--declared|cluster.yaml", "expected a list of disks"),
    ("kubectl-berth|drift|--declared|list.yaml", "disks[0] is '1': expected a disk"),
    ("kubectl-berth|drift|--declared|nameless.yaml", "disks[0]: neither name nor node_name is given"),
    ("kubectl-berth|drift|--declared|typed.yaml", "disks[0]: node_name is", "expected a DNS-1123 subdomain"),
    ("kubectl-berth|drift|--declared|identity.yaml", "disks[0]", "'much'"),
)


@pytest.mark.parametrize("row", SHORT, ids=lambda row: row[0].replace("|", " "))
def test_it_is_refused_with_one_line_that_says_why(row: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    refused(row[0], row[1:], capsys)


def test_a_state_directory_that_cannot_be_made_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    status, told = run("berth-agent|once|--state-directory|/proc/berth", capsys)
    assert status == 2, told
    assert "--state-directory /proc/berth cannot be used" in told.splitlines()[-1]
    assert "Traceback" not in told


#: Numbers that no option takes, and whether 0 is one of them.
NUMBERS = (
    ("berth-controller|--workers", True),
    ("berth-controller|--resync", True),
    ("berth-controller|--orphan-interval", True),
    ("berth-controller|--orphan-report-after", False),
    ("berth-controller|--orphan-repair-after", False),
    ("berth-controller|--port", False),
    ("berth-scheduler|run|--port", False),
    ("berth-scheduler|run|--page-port", False),
    ("berth-scheduler|extend|--port", False),
    ("berth-scheduler|extend|--metrics-port", False),
    ("berth-scheduler|extend|--hold-seconds", True),
    ("berth-scheduler|extend|--bind-seconds", True),
    ("berth-scheduler|-|simulate|cluster.yaml|--times", True),
    ("berth-scheduler|-|simulate|cluster.yaml|--arrived", True),
    ("kubectl-berth|show|--timeout", True),
)
JUNK = ("nan", "inf", "-inf", "-1", "1e300", "", "\u0663", "\u221e", "1_000", "0x10", "9" * 5000, "\ud800")


@pytest.mark.parametrize(("option", "above"), NUMBERS, ids=lambda value: str(value).replace("|", " "))
def test_a_number_that_cannot_be_meant_is_refused(option: str, above: bool, capsys: pytest.CaptureFixture[str]) -> None:
    for value in (*JUNK, *(("0",) if above else ())):
        refused(f"{option}={value}", (option.rpartition("|")[2], "expected "), capsys)


@pytest.mark.parametrize("text", ["127.0.0.1", "::1", "fe80::1%eth0", "localhost", "7f3a9b", "node_1.example.com."])
def test_an_address_that_can_be_meant_is_taken(text: str) -> None:
    assert is_host(text)


@pytest.mark.parametrize(
    "text", ["", "1.2.3", "999.1.1.1", "a..b", "-a", "a b", "a\n", "\u00e9", "[::1]", "a:1", 64 * "a"]
)
def test_an_address_that_cannot_be_meant_is_none(text: str) -> None:
    assert not is_host(text)


@pytest.mark.parametrize("value", [one for one in JUNK if one != "-1"])
def test_a_seed_is_a_number(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    refused(f"berth-scheduler|-|simulate|cluster.yaml|--seed={value}", ("--seed", "expected "), capsys)


#: Options that name a file or a directory which has to be there.
PATHS = (
    "berth-agent|once|--config",
    "berth-agent|once|--kubeconfig",
    "berth-agent|run|--renew-token",
    "berth-agent|-|check-config",
    "berth-controller|--kubeconfig",
    "berth-controller|--tls-key|file|--tls-certificate",
    "berth-controller|--tls-certificate|file|--tls-key",
    "berth-scheduler|run|--config",
    "berth-scheduler|run|--kubeconfig",
    "berth-scheduler|run|--renew-token",
    "berth-scheduler|extend|--kubeconfig",
    "berth-scheduler|extend|--tls-certificate|file|--tls-key|file|--client-ca",
    "berth-scheduler|-|simulate",
    "berth-scheduler|-|simulate|cluster.yaml|--config",
    "kubectl-berth|top|--kubeconfig",
    "kubectl-berth|drift|--declared",
)


@pytest.mark.parametrize("option", PATHS, ids=lambda value: value.replace("|", " "))
def test_a_file_that_cannot_be_read_is_named(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    closed = tmp_path / "closed"
    closed.touch(mode=0)
    for path in ("missing", "directory", "file/below"):
        refused(f"{option}|{path}", (path, "cannot be read"), capsys)
    with without_override():
        refused(f"{option}|{closed}", (str(closed), "cannot be read: Permission denied"), capsys)


def test_a_changed_configuration_with_a_file_that_is_missing_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text(SCHEDULER)
    files = Configurations(Settings(config=str(file)), lambda found: check_files(found.extenders))
    files.load()
    file.write_text(SCHEDULER + EXTENDER)
    monkeypatch.setattr("berth_scheduler.configuration.LOOK_SECONDS", 0.01)

    async def first() -> SchedulerConfiguration | InputError:
        found: asyncio.Future[SchedulerConfiguration | InputError] = asyncio.get_running_loop().create_future()
        watching = asyncio.ensure_future(files.watch(found.set_result))
        try:
            return await asyncio.wait_for(found, 10)
        finally:
            watching.cancel()

    refusal = asyncio.run(first())
    assert isinstance(refusal, InputError)
    assert "/nope of extenders[0].tlsConfig" in refusal.message
