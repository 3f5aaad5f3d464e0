"""The filter with_extender as a template has it: a document that kube-scheduler takes, or one clear error."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from berth_core.config.configuration import SchedulerConfiguration
from tests.support.playbook import run_playbook

BASE = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "leaderElection": {"leaderElect": False},
}
FILES = "ca_file='/pki/ca.crt', cert_file='/pki/me.crt', key_file='/pki/me.key'"


@pytest.mark.slow
def test_a_play_writes_the_file_once(tmp_path: Path) -> None:
    target = tmp_path / "kube-scheduler.yaml"
    made = "{{ base | berth.stateful.with_extender('v1.36.4', url='https://h:9811', " + FILES + ") | to_nice_yaml }}"
    write = {"ansible.builtin.copy": {"dest": str(target), "mode": "0600", "content": made}, "vars": {"base": BASE}}
    wrong = {
        "ansible.builtin.debug": {"msg": "{{ {} | berth.stateful.with_extender('v1.24.0', url='http://127.0.0.1:1') }}"}
    }
    unknown = {
        "ansible.builtin.debug": {
            "msg": "{{ {} | berth.stateful.with_extender('v1.36.4', url='http://127.0.0.1:1', verbs=1) }}"
        }
    }
    refused = [{**task, "ignore_errors": True} for task in (wrong, unknown)]
    run = run_playbook([write, write, *refused], tmp_path / "play").ok()
    assert [task.kind for task in run.tasks] == ["ok", "ok", "ignored", "ignored"]
    assert [task.result["changed"] for task in run.tasks[:2]] == [True, False]
    document = yaml.safe_load(target.read_text())
    (extender,) = SchedulerConfiguration.parse(document).extenders
    assert (extender.url_prefix, extender.enable_https) == ("https://h:9811", True)
    assert document["leaderElection"] == BASE["leaderElection"]
    assert "from version 1.25 on" in str(run.tasks[2].result)
    assert "verbs" in str(run.tasks[3].result)
