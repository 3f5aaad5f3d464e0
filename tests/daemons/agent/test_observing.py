"""How the agent hears of its host's disks, and what becomes of it when a disk never answers."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from berth_agent import observer as observer_module
from berth_agent.observer import Observer
from berth_agent.seams import Look
from berth_core.app.agent_settings import Settings
from berth_host.machine import Machine
from tests.unit.host import trees

LISTEN = """
import asyncio
from berth_agent.hostevents import KernelMessages

async def listen():
    told = asyncio.Event()
    messages = KernelMessages(told.set)
    print("listening" if messages.open() else "deaf", flush=True)
    await told.wait()
    messages.close()
    print("heard", messages.heard, flush=True)

asyncio.run(listen())
"""


def a_block_device() -> Path:
    """Any: the kernel sends its message again when it is asked to, and the device is not touched."""
    return next(each for each in sorted(Path("/sys/block").iterdir()) if (each / "uevent").exists())


@pytest.mark.parametrize("where", ["here", "in a network namespace of its own"])
def test_the_kernels_messages_of_block_devices_arrive(where: str) -> None:
    """A pod without the host's network, and the hosts of the development cluster, are in network namespaces too."""
    if os.geteuid() != 0:
        pytest.skip("the kernel is asked for its messages as root")
    device = a_block_device() / "uevent"
    if not os.access(device, os.W_OK):
        pytest.skip(f"{device} is not to be written here: the kernel cannot be asked for its messages")
    argv = [*(["unshare", "--net"] if where != "here" else []), sys.executable, "-c", LISTEN]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        watchdog = threading.Timer(120, process.kill)
        watchdog.start()
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "listening\n"
            device.write_text("change")
            assert process.stdout.readline().startswith("heard "), "not heard within two minutes"
        finally:
            watchdog.cancel()
            process.kill()


@pytest.fixture
def dead_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """A survey that a disk holds in the kernel until the event is set, as hardware does that cannot be had."""
    answers, real = threading.Event(), observer_module.survey

    def survey(machine: Machine) -> list[Any]:
        answers.wait()
        return real(machine)

    monkeypatch.setattr(observer_module, "survey", survey)
    monkeypatch.setattr(observer_module, "_SLOW", 0.1)
    yield answers
    answers.set()


async def until(condition: Callable[[], Any]) -> None:
    for _each in range(1200):
        if condition():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("not within a minute")


def test_a_survey_that_hangs_is_told_of_and_its_result_is_taken_when_it_comes(
    tmp_path: Path, dead_disk: threading.Event
) -> None:
    trees.disk(tmp_path, "sda", "8:0")
    trees.mounts(tmp_path, "0:25 / / - tmpfs none rw")
    looks: list[Look] = []
    said: list[str] = []

    async def story() -> None:
        watching = Observer(Machine(str(tmp_path)), lambda: Settings(node="h1"), looks.append, said.append)
        task = asyncio.ensure_future(watching.run())
        await until(lambda: said)
        assert "a disk does not answer" in said[0]
        assert not looks
        dead_disk.set()
        await until(lambda: looks)
        assert said[1:] == [""]
        assert [device["name"] for device in looks[0].whole] == ["sda"]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(story())


def test_a_survey_that_never_ends_does_not_keep_the_agent_from_ending(
    tmp_path: Path, dead_disk: threading.Event
) -> None:
    ended = threading.Event()
    said: list[str] = []

    async def story() -> None:
        watching = Observer(Machine(str(tmp_path)), lambda: Settings(node="h1"), lambda _look: None, said.append)
        task = asyncio.ensure_future(watching.run())
        await until(lambda: said)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    def agent() -> None:
        asyncio.run(story())
        ended.set()

    threading.Thread(target=agent, daemon=True).start()
    assert ended.wait(120), "the loop waits for a thread that a dead disk holds"
    assert not dead_disk.is_set()
