"""The DRA plugin's messages and sockets, and what it writes on a host; a real gRPC client is in the kubelet's place."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import tempfile
from pathlib import Path

import pytest
from grpclib.client import Channel, UnaryStreamMethod
from hypothesis import given
from hypothesis import strategies as st

from berth_agent.devices import cdi
from berth_agent.devices import kubelet_messages as messages
from berth_agent.devices.cdi import Claimed
from berth_agent.devices.checkpoint import Checkpoint
from berth_agent.devices.device import Device, Node
from berth_agent.devices.kubelet import DRA, HEALTH_SERVICE, REGISTRATION, DraService, Health, Sockets
from berth_core.app.device_claim import Grant
from tests.support.kubelet import call, registration

# -- messages ---------------------------------------------------------------------------------------------------------

text = st.text(max_size=300)
devices = st.fixed_dictionaries(
    {
        "request_names": st.lists(text, max_size=3),
        "pool_name": text,
        "device_name": text,
        "cdi_device_ids": st.lists(text, max_size=3),
        "share_id": text,
    }
)
answers = st.dictionaries(text, st.fixed_dictionaries({"devices": st.lists(devices, max_size=3), "error": text}))


@given(answers)
def test_an_answer_survives_the_wire(claims):
    sent = messages.encode({"claims": claims}, messages.PREPARED_CLAIMS)
    assert messages.decode(sent, messages.PREPARED_CLAIMS) == {"claims": claims}


@given(st.binary(max_size=200))
def test_what_is_no_message_is_refused_and_nothing_else_happens(data):
    try:
        messages.decode(data, messages.PREPARED_CLAIMS)
    except ValueError:  # a UnicodeDecodeError is one
        return


def test_the_bytes_are_protobufs():
    """As protoc's own tools print them: field number and wire type, length, content."""
    claim = {"namespace": "ns", "uid": "u", "name": "c"}
    assert (
        messages.encode({"claims": [claim]}, messages.CLAIMS)
        == b"\x0a\x0a" + b"\x0a\x02ns" + b"\x12\x01u" + b"\x1a\x01c"
    )
    status = {"plugin_registered": True, "error": ""}
    assert messages.encode(status, messages.REGISTRATION_STATUS) == b"\x08\x01"
    health = {"devices": [{"device": None, "health": 2, "last_updated_time": 300}]}
    assert messages.encode(health, messages.HEALTH) == b"\x0a\x05\x10\x02\x18\xac\x02"
    # an empty value of a map is written: the claim is answered
    assert messages.encode({"claims": {"u": {}}}, messages.UNPREPARED_CLAIMS) == b"\x0a\x05\x0a\x01u\x12\x00"


def test_fields_of_a_newer_kubelet_are_skipped():
    newer = b"\x0a\x01n\xa0\x06\x05\xaa\x06\x02xy\xb1\x06" + bytes(8) + b"\xb5\x06" + bytes(4) + b"\x12\x01u"
    assert messages.decode(newer, messages.CLAIM) == {"namespace": "n", "uid": "u", "name": ""}


@pytest.mark.parametrize("broken", [b"\x0a\x05ab", b"\x0a", b"\xff" * 11, b"\x0b", b"\x08\x01"])
def test_a_message_that_is_cut_off_or_of_another_shape_is_refused(broken):
    with pytest.raises(ValueError, match=r"message ends|wire type|a number stands"):
        messages.decode(broken, messages.CLAIM)


# -- sockets ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder():
    """A kubelet's folder with a short name: a socket's address has 107 bytes, pytest's own folders may be longer."""
    with tempfile.TemporaryDirectory(prefix="bk-") as name:
        yield Path(name)


def served(folder, work):
    """Run `work(call, told)` beside the sockets."""

    async def prepare(claims):
        return {each["uid"]: {"error": f"no {each['name']}"} for each in claims}

    async def unprepare(claims):
        return {each["uid"]: {} for each in claims}

    async def run():
        told, health = [], Health()
        sockets = Sockets(str(folder), DraService(prepare, unprepare, health), lambda *word: told.append(word))
        task = asyncio.ensure_future(sockets.run(lambda: True))
        registry = registration(folder)
        while not registry.exists() and not task.done():
            await asyncio.sleep(0.01)
        if task.done():
            task.result()
        try:
            return await work(told, health)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    return asyncio.run(run())


def test_a_kubelet_registers_us_and_asks_for_claims(folder):
    async def work(told, _health):
        registry = registration(folder)
        info = await call(registry, f"{REGISTRATION}/GetInfo", {}, messages.NOTHING, messages.PLUGIN_INFO)
        status = {"plugin_registered": True}
        method = f"{REGISTRATION}/NotifyRegistrationStatus"
        await call(registry, method, status, messages.REGISTRATION_STATUS, messages.NOTHING)
        asked = {
            "claims": [{"namespace": "ns", "uid": "u1", "name": "c1"}, {"namespace": "ns", "uid": "u2", "name": "c2"}]
        }
        shapes = (messages.CLAIMS, messages.PREPARED_CLAIMS)
        prepared = await call(info["endpoint"], f"{DRA}/NodePrepareResources", asked, *shapes)
        shapes = (messages.CLAIMS, messages.UNPREPARED_CLAIMS)
        undone = await call(info["endpoint"], f"{DRA}/NodeUnprepareResources", asked, *shapes)
        modes = {stat.S_IMODE(os.stat(path).st_mode) for path in (registry, info["endpoint"])}
        return info, told, prepared, undone, modes

    info, told, prepared, undone, modes = served(folder, work)
    assert (info["type"], info["name"], info["supported_versions"]) == ("DRAPlugin", "berth.dev", ["v1.DRAPlugin"])
    assert told == [(True, "")]
    assert {uid: each["error"] for uid, each in prepared["claims"].items()} == {"u1": "no c1", "u2": "no c2"}
    assert undone["claims"] == {"u1": {"error": ""}, "u2": {"error": ""}}
    assert modes == {0o600}
    assert list(folder.rglob("*.sock")) == [], "they go with the plugin"


def test_health_is_told_at_once_and_at_each_change(folder):
    async def work(_told, health):
        health.set("h1", {"acc-a": ""}, 15.0)
        async with Channel(path=str(folder / "plugins/berth.dev/dra.sock"), codec=messages.Codec()) as channel:
            method = UnaryStreamMethod(
                channel, f"{HEALTH_SERVICE}/NodeWatchResources", messages.NOTHING, messages.HEALTH
            )
            async with method.open() as stream:
                await stream.send_message({}, end=True)
                first = await stream.recv_message()
                health.set("h1", {"acc-a": "it smokes"}, 15.0)
                second = await stream.recv_message()
                await stream.cancel()
        return [(each["devices"][0]["health"], each["devices"][0]["message"]) for each in (first, second)]

    assert served(folder, work) == [(1, ""), (2, "it smokes")]


def test_a_socket_that_a_killed_agent_left_is_no_obstacle(folder):
    left = registration(folder)
    left.parent.mkdir()
    left.touch()

    async def work(_told, _health):
        while not stat.S_ISSOCK(left.stat().st_mode):
            await asyncio.sleep(0.01)
        return await call(left, f"{REGISTRATION}/GetInfo", {}, messages.NOTHING, messages.PLUGIN_INFO)

    assert served(folder, work)["name"] == "berth.dev"


# -- what is written on the host --------------------------------------------------------------------------------------


def grant(name, shares=1000):
    return Grant("device-0", "h1", f"acc-{name}", "share", f"h1-{name}", "acc", f"uuid-{name}", shares, 1000)


CLAIMED = Claimed("ns", "gpu-ml-0", "0f0f-1", "my-gpu")
TWO = [
    (grant("a"), Device("acc", "uuid-a", (Node("/dev/a", "/dev/acc"),), env={"VISIBLE": "a"})),
    (grant("b", 400), Device("acc", "uuid-b", env={"VISIBLE": "b"})),
]


def test_the_containers_environment_tells_what_it_got():
    document = cdi.specification(CLAIMED, TWO)
    assert document["containerEdits"]["env"] == [
        "BERTH_DEVICE_MY_GPU_PATH=/dev/acc",
        "BERTH_DEVICE_MY_GPU_SHARES=1000,400",
        "BERTH_DEVICE_MY_GPU_TOTAL_SHARES=1000,1000",
        "BERTH_DEVICE_MY_GPU_UUID=uuid-a,uuid-b",
        "VISIBLE=a,b",
    ]
    names = [device["name"] for device in document["devices"]]
    assert [cdi.cdi_id(CLAIMED, each).partition("=")[2] for each, _device in TWO] == names
    assert document["devices"][0]["containerEdits"]["deviceNodes"] == [{"path": "/dev/acc", "hostPath": "/dev/a"}]


def test_files_are_whole_written_once_and_removed(tmp_path):
    document, root = cdi.specification(CLAIMED, TWO), str(tmp_path / "cdi")
    assert cdi.there(root) == []
    cdi.write(root, CLAIMED.uid, document)
    path = cdi.path_of(root, CLAIMED.uid)
    before = os.stat(path)
    cdi.write(root, CLAIMED.uid, document)
    assert os.stat(path).st_ino == before.st_ino, "what says the same is not written again"
    assert stat.S_IMODE(before.st_mode) == 0o644, "the container runtime reads it"
    assert json.loads(Path(path).read_text()) == document
    assert cdi.there(root) == [CLAIMED.uid]
    cdi.remove(root, CLAIMED.uid)
    cdi.remove(root, CLAIMED.uid)
    assert os.listdir(root) == []


@pytest.mark.parametrize("uid", ["../../etc/x", "a/b", "", "a" * 65, "a\0b"])
def test_a_uid_that_is_a_path_is_refused(uid):
    with pytest.raises(ValueError, match="not the uid"):
        cdi.path_of("/run/cdi", uid)


def test_the_checkpoint_is_what_the_next_agent_reads(tmp_path):
    first = Checkpoint(str(tmp_path))
    first.put("u1", {"name": "a"})
    first.put("u2", {"name": "b"})
    first.drop("u1")
    assert Checkpoint(str(tmp_path)).claims == {"u2": {"name": "b"}}
    assert stat.S_IMODE(os.stat(tmp_path / "claims.json").st_mode) == 0o600


@pytest.mark.parametrize("content", ["", "{", "[]", '{"format": 2, "claims": {}}', '{"format": 1, "claims": 3}'])
def test_a_checkpoint_that_cannot_be_read_is_put_aside(tmp_path, content):
    (tmp_path / "claims.json").write_text(content)
    assert Checkpoint(str(tmp_path)).claims == {}
    assert (tmp_path / "claims.json.unreadable").read_text() == content
