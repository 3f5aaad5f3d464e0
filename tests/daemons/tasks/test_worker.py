"""A call through a worker and back, without a cluster: what arrives, what is refused, what an exception is."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from berth_core.errors import InputError, TaskError
from berth_tasks.program import calls, pod

#: What the image has.
MODULE = """
class TooHot(Exception):
    pass

class Oven:
    @staticmethod
    def heat(degrees):
        if degrees > 300:
            raise TooHot("too hot", degrees)
        return {"degrees": degrees, "kind": [1, 2.5, None, True]}

def echo(*args, **kwargs):
    return [args, kwargs]

def make(size):
    return "x" * size

def fails(words):
    raise ValueError(words)

def strange():
    return {1: "a key that is a number"}

def count(items):
    return sum(items)

def leaves():
    raise SystemExit(7)
"""


class TooHot(Exception):
    """As the program knows it."""


def row(state: str, left: str, code: int | None = 0) -> dict[str, Any]:
    told = {"name": "py-1", "namespace": "ns", "state": state, "tries": 1, "exit_code": code, "message": "", "log": ""}
    return {**told, "reason": None, "termination_message": left}


class Image:
    """A folder in which workers run."""

    def __init__(self, folder: Path) -> None:
        self._left = folder / "termination-log"
        self._folder = folder
        (folder / "kitchen.py").write_text(MODULE)

    def run(self, text: str) -> dict[str, Any]:
        """The row of a Task that made this call, as the backend would tell it. Python sees nothing of berth."""
        self._left.unlink(missing_ok=True)
        environment = {"BERTH_TERMINATION_LOG": str(self._left), "PATH": ""}
        argv = [sys.executable, "-c", pod.WORKER, text]
        done = subprocess.run(
            argv, cwd=self._folder, env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        left = self._left.read_text() if self._left.exists() else ""
        assert len(left) <= 4096
        found = row("Failed" if done.returncode else "Succeeded", left, done.returncode)
        return {**found, "log": done.stderr}

    def call(self, path: str, *args: Any, encoding: str = "json", **kwargs: Any) -> Any:
        done = self.run(calls.call_text(path, [(args, kwargs)], encoding, False))
        return calls.result_of(done, {"kitchen:TooHot": TooHot})


@pytest.fixture
def image(tmp_path: Path) -> Image:
    return Image(tmp_path)


def test_arguments_and_results_arrive(image: Image) -> None:
    assert image.call("kitchen:Oven.heat", 200) == {"degrees": 200, "kind": [1, 2.5, None, True]}
    assert image.call("kitchen:echo", (1, "ä $(HOME)"), key=None) == [[[1, "ä $(HOME)"]], {"key": None}]
    assert image.call("kitchen:count", {3, 4}, encoding="pickle") == 7
    many = image.run(calls.call_text("kitchen:make", [((size,), {}) for size in (1, 2)], "json", True))
    assert calls.result_of(many, {}) == ["x", "xx"]


def test_an_exception_is_the_functions_own_where_its_class_is_known(image: Image) -> None:
    with pytest.raises(ValueError, match="flour") as seen:
        image.call("kitchen:fails", "flour")
    assert seen.value.args == ("flour",)
    assert "in Task ns/py-1" in seen.value.__notes__[0]
    assert "raise ValueError(words)" in seen.value.__notes__[0]
    with pytest.raises(TooHot) as hot:
        image.call("kitchen:Oven.heat", 301)
    assert hot.value.args == ("too hot", 301)
    text = calls.call_text("kitchen:Oven.heat", [((301,), {})], "json", False)
    with pytest.raises(
        TaskError, match=r"Task ns/py-1 is Failed: its function raised kitchen:TooHot: \('too hot', 301\)"
    ):
        calls.result_of(image.run(text), {})
    with pytest.raises(ValueError, match="yyy"):  # its words and its traceback are cut to what a kubelet keeps
        image.call("kitchen:fails", "y" * 3000)


@pytest.mark.parametrize(
    ("path", "args", "words"),
    [
        ("kitchen:make", (5000,), "the result is too large: 5014 bytes of JSON, and at most 4096 are taken"),
        ("kitchen:strange", (), "the result has a key 1 of type int"),
        ("kitchen:nothing", (), "kitchen:nothing cannot be imported in this image"),
        ("pantry:open", (), "No module named 'pantry'"),
    ],
)
def test_what_has_no_result_says_why_on_the_task(image: Image, path: str, args: tuple[Any, ...], words: str) -> None:
    done = image.run(calls.call_text(path, [(args, {})], "json", False))
    assert (done["state"], done["exit_code"]) == ("Failed", 2)
    assert words in json.loads(done["termination_message"])["refused"]
    assert words in done["log"]
    with pytest.raises(TaskError, match="Task ns/py-1 is Failed after 1 tries, exit code 2: ") as seen:
        calls.result_of(done, {})
    assert words in seen.value.message
    assert seen.value.details["task"]["name"] == "py-1"


def test_a_pod_that_says_nothing_and_one_that_lies(image: Image) -> None:
    text = calls.call_text("kitchen:leaves", [((), {})], "json", False)
    with pytest.raises(TaskError, match="is Failed after 1 tries, exit code 7"):
        calls.result_of(image.run(text), {})
    with pytest.raises(TaskError, match="has succeeded and left no result"):
        calls.result_of(row("Succeeded", "hello"), {})
    with pytest.raises(TaskError, match="is Killed"):
        calls.result_of({**row("Killed", ""), "message": "its end was asked for"}, {})
    dumb = {**row("Failed", ""), "message": "exit code 1", "log": "begun\nexec python3: no such file or directory\n"}
    with pytest.raises(TaskError, match=r": exit code 1; its log ends with: exec python3: no such file or directory$"):
        calls.result_of(dumb, {})
    # Neither any class by name, nor what is not an Exception, is ever made of what a pod says.
    for kind in ("os:system", "builtins:SystemExit", "builtins:print", "kitchen:TooHot"):
        lie = {"error": {"type": kind, "text": "", "args": [1], "traceback": ""}}
        with pytest.raises(TaskError, match=f"raised {kind}"):
            calls.result_of(row("Failed", json.dumps(lie)), {})
    sent = json.dumps({"sent": "0" * 64})
    with pytest.raises(TaskError, match="has sent its result, and another one or none is there"):
        calls.result_of(row("Succeeded", sent), {}, b'{"result": 1}')


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda: None, "has no import path"),
        ("".join, "has no import path"),
        (Path.cwd, "a pod would call that"),
        ("kitchen", "expected module:name"),
        ("kitchen:Oven heat", "expected module:name"),
    ],
)
def test_a_function_that_no_pod_finds_is_refused(function: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        calls.import_path(function)


def test_arguments_that_cannot_travel_are_refused_before_anything_is_made() -> None:
    assert calls.import_path(json.dumps) == "json:dumps"
    with pytest.raises(
        InputError, match=r"an argument of m:f has a set: JSON carries .* or give the executor arguments='pickle'"
    ):
        calls.call_text("m:f", [(({1},), {})], "json", False)
    with pytest.raises(InputError, match="the arguments of m:f cannot be pickled"):
        calls.call_text("m:f", [((lambda: None,), {})], "pickle", False)
    with pytest.raises(InputError, match=r"the call of m:f has 70\d\d\d bytes, and at most 65536 are taken"):
        calls.call_text("m:f", [(("x" * 70_000,), {})], "json", False)


def test_the_template_keeps_what_it_has_and_kubernetes_puts_nothing_into_the_call() -> None:
    template = {"spec": {"containers": [{"name": "m", "image": "i", "env": [{"name": "A", "value": "1"}]}]}}
    made = pod.with_call(
        template, "python3", '{"a": "$(HOME) $x"}', {"BERTH_RESULTS_MOST": 7, "BERTH_POD_UID": {"f": 1}}
    )
    first = made["spec"]["containers"][0]
    assert first["args"] == ['{"a": "$$(HOME) $$x"}']
    assert [one["name"] for one in first["env"]] == ["A", "BERTH_RESULTS_MOST", "BERTH_POD_UID"]
    assert template["spec"]["containers"][0].keys() == {"name", "image", "env"}
    for field, value in (("command", ["sh"]), ("env", [{"name": "BERTH_RESULTS_URL", "value": "x"}])):
        with pytest.raises(InputError, match=rf"template\.spec\.containers\[0\]\.{field}"):
            pod.check({"spec": {"containers": [{"image": "i", field: value}]}})
