"""The role node_agent where systemd is: installed, upgraded under a live volume, and removed.

After the tests of the agent, which end with it: what they need, this takes away. Each play takes the emulated machine
minutes, so `make vm ROLE=1` runs it, and `make test` leaves it out: there the role installs the unit in the nodes of
kind (extensions/molecule/kind/agent.yml). What does not need systemd (modes of files, secrets that are not shown, check
mode, a run that dies) is in tests/integration/test_node_agent.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.daemons.vm.ground import HELD, Kept, VmGround
from tests.daemons.vm.service import CONFIGURED, COPIED, REMEMBERED, SECONDS, STARTED, changed
from tests.support.agent import newer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def test_the_role_has_installed_it(ground: VmGround) -> None:
    agent = ground.agent
    assert agent.installed is not None
    assert {"Unit", COPIED, "Hand it over"} <= set(changed(agent.installed))
    assert agent.here("stat -c %a /etc/berth /etc/berth/token /etc/berth/kubeconfig").split() == ["700", "600", "600"]
    assert agent.here("cat /etc/berth/token") not in agent.installed.output


@pytest.mark.promise
def test_the_role_upgrades_under_a_live_volume_and_removes_only_what_nobody_needs(
    ground: VmGround, kept: Kept, tmp_path: Path
) -> None:
    agent = ground.agent
    mount, pid = agent.here(f"grep {ground.point(HELD)} /proc/self/mountinfo"), agent.shown("MainPID")
    slower = {**agent.values["node_agent_intervals"], "smart": 20}
    newest = str(newer(agent.program, tmp_path / "newer.pyz"))
    upgraded = agent.play(node_agent_zipapp=newest, node_agent_intervals=slower).ok()
    assert {COPIED, CONFIGURED, STARTED, REMEMBERED} <= set(changed(upgraded))
    agent.wait_ready(SECONDS)
    assert agent.shown("MainPID") != pid
    assert agent.here(f"grep {ground.point(HELD)} /proc/self/mountinfo") == mount, "it was never unmounted"
    kept.check()

    refused = agent.play(node_agent_state="absent").failed()
    assert f"not removed while disks are held: {ground.object_name(HELD)}" in refused["msg"]
    assert agent.alive()
    ground.give_back({HELD: kept.lock})
    agent.play(node_agent_state="absent").ok()
    assert agent.shown("LoadState") == "not-found"
    assert agent.here("find /opt/berth /etc/berth /var/cache/berth-agent -type f", check=False) == ""
