"""When a disk is faulted and when it is healed, from made-up and from recorded evidence."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth_core.app.health import (
    GOOD_PROBES,
    SLOW_PROBES,
    Evidence,
    Health,
    from_status,
    judge,
    smart_facts,
    smart_trouble,
    to_status,
)

OK, FAILED, SLOW = Evidence("ok"), Evidence("failed", "a write to /x failed: I/O error"), Evidence("slow", "no answer")


def after(*checks: Evidence) -> Health:
    before = Health()
    for each in checks:
        before = judge(before, each)
    return before


def test_the_first_good_check_makes_a_disk_healthy_and_it_stays_so():
    assert after(OK)[:2] == ("Healthy", "Checked")
    assert after(OK, OK) == after(OK)
    assert after(Evidence("none"))[:2] == ("Unknown", "NotChecked")
    assert after(Evidence("none", smart={"passed": True})).state == "Healthy"


@pytest.mark.parametrize(
    ("evidence", "reason", "words"),
    [
        (FAILED, "ProbeFailed", "I/O error"),
        (Evidence("ok", errors=("I/O error, dev sdb", "x")), "KernelErrors", r"I/O error, dev sdb \(and 1 more\)"),
        (Evidence("ok", smart={"passed": False, "criticalWarning": 4}), "SelfReported", "critical warning 0x04"),
        (Evidence("ok", smart={"passed": True, "criticalWarning": 1}), "SelfReported", "0x01"),
    ],
)
def test_one_piece_of_bad_news_is_enough(evidence, reason, words):
    health = after(OK, evidence)
    assert (health.state, health.reason) == ("Faulted", reason)
    assert re.search(words, health.message)


def test_a_slow_disk_is_faulted_only_when_it_stays_slow():
    assert after(OK, *[SLOW] * (SLOW_PROBES - 1)).state == "Healthy"
    assert after(OK, *[SLOW] * (SLOW_PROBES - 1), OK, SLOW).state == "Healthy"
    assert after(OK, *[SLOW] * SLOW_PROBES)[:2] == ("Faulted", "NoAnswer")


def test_a_faulted_disk_is_healed_by_good_checks_in_a_row():
    assert after(FAILED, *[OK] * (GOOD_PROBES - 1)).state == "Faulted"
    assert after(FAILED, *[OK] * GOOD_PROBES)[:2] == ("Healthy", "Healed")
    assert after(FAILED, *[OK] * (GOOD_PROBES - 1), FAILED, *[OK] * (GOOD_PROBES - 1)).state == "Faulted"
    assert after(FAILED, *[Evidence("none")] * 9).state == "Faulted"


@given(st.lists(st.sampled_from([OK, FAILED, SLOW, Evidence("none"), Evidence("ok", errors=("e",))]), max_size=30))
def test_bad_news_of_the_last_checks_are_never_forgotten(checks):
    health = after(*checks)
    recent = checks[-GOOD_PROBES:]
    if any(each.probe == "failed" or each.errors for each in recent):
        assert health.state == "Faulted"
    if len(recent) == GOOD_PROBES and all(each == OK for each in recent):
        assert health.state == "Healthy"


def test_a_verdict_outlives_the_agent():
    health = after(OK, FAILED)
    written = to_status(health, {"passed": True}, {}, "t1")
    assert written == {
        "state": "Faulted", "reason": "ProbeFailed", "message": FAILED.note, "since": "t1", "smart": {"passed": True}
    }  # fmt: skip
    assert from_status({"health": written})[:3] == health[:3]
    assert to_status(health, {}, written, "t2")["since"] == "t1"
    assert to_status(after(OK), {}, written, "t2")["since"] == "t2"
    assert from_status({"health": {"state": "Healthy", "reason": "Checked"}}) == Health()
    assert from_status({}) == Health()


def test_what_counts_of_smartctl_s_report():
    nvme = {
        "smart_status": {"passed": False, "nvme": {"value": 4}},
        "nvme_smart_health_information_log": {
            "critical_warning": 4, "temperature": 50, "percentage_used": 0, "media_errors": 3, "power_on_hours": 9
        },
    }  # fmt: skip
    assert smart_facts(nvme) == {"passed": False, "criticalWarning": 4, "mediaErrors": 3, "percentageUsed": 0}
    assert "0x04" in smart_trouble(smart_facts(nvme))
    ata = {
        "smart_status": {"passed": True},
        "ata_smart_attributes": {
            "table": [
                {"id": 5, "raw": {"value": 8}},
                {"id": 194, "raw": {"value": 31}},
                {"id": 197, "raw": {"value": 1}},
            ]
        },
    }
    assert smart_facts(ata) == {"passed": True, "reallocatedSectors": 8, "pendingSectors": 1}
    assert smart_facts({"smart_status": {"passed": True}, "scsi_grown_defect_list": 2}) == {
        "passed": True, "reallocatedSectors": 2
    }  # fmt: skip
    for odd in ({}, {"smart_status": "no"}, {"smart_status": {"passed": 1}}, {"ata_smart_attributes": {"table": 5}}):
        assert smart_facts(odd) == {}
