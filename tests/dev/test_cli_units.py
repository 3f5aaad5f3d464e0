"""The command line of berth-dev, without a cluster: what belongs to whom."""

from __future__ import annotations

import pytest

from berth_dev.cli import main, parsed

OURS = ([], ["--name", "x"], ["--name=x"], ["--dir", "/tmp/kubectl"], ["--nam", "kubectl"])
THEIRS = (
    [],
    ["get", "pods"],
    ["-n", "ns", "get", "pods"],
    ["--help"],
    ["-h"],
    ["--", "get"],
    ["-v", "6", "get", "nodes"],
    ["exec", "p", "--", "sh", "-c", "--name y"],
    ["--name", "y", "--dir", "z"],
    ["kubectl", "kubectl"],
)


@pytest.mark.parametrize("ours", OURS, ids=" ".join)
@pytest.mark.parametrize("theirs", THEIRS, ids=" ".join)
def test_what_follows_kubectl_is_kubectls(ours: list[str], theirs: list[str]) -> None:
    arguments = parsed([*ours, "kubectl", *theirs])
    assert arguments.arguments == theirs
    where = (arguments.name, arguments.dir)
    assert where == (parsed([*ours, "status"]).name, parsed([*ours, "status"]).dir)


@pytest.mark.parametrize("name", ["kubectl", "status"])
def test_a_cluster_may_have_the_name_of_a_command(name: str) -> None:
    assert parsed(["--name", name, "status", "--json"]).json is True


def test_help_of_berth_dev_itself(capsys: pytest.CaptureFixture[str]) -> None:
    for argv in (["--help"], ["-h"], ["status", "--help"]):
        with pytest.raises(SystemExit, match="0"):
            main(argv)
        assert "usage: berth-dev" in capsys.readouterr().out


@pytest.mark.parametrize("argv", [[], ["--name"], ["--what", "kubectl"], ["-n", "x", "kubectl", "get"], ["kubectll"]])
def test_what_cannot_be_understood(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(argv)
    assert "usage: berth-dev" in capsys.readouterr().err
