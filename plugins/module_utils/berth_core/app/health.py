# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a disk is healthy, from what was found at each check; when it counts as healed. Pure, the same everywhere.

Called by the node agent. The rules, in this order:

1. The disk says itself that it fails (SMART, NVMe critical warning): Faulted as long as it says so.
2. A probe failed with an I/O error, or the kernel has logged one since the last check: Faulted at once, for what was
   acknowledged may be lost already.
3. A probe gave no answer in time: Faulted when that happens ``SLOW_PROBES`` times in a row; a busy disk is not a dead
   one.
4. A faulted disk is Healthy again after ``GOOD_PROBES`` good checks in a row, not before: a cable that comes and goes
   must not make the disk come and go with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from .phase import FAULTED, HEALTH_UNKNOWN, HEALTHY

GOOD_PROBES = 3
SLOW_PROBES = 2


class Evidence(NamedTuple):
    """One check of one disk. ``probe``: ok, failed, slow or none (nothing could be tried); ``note``: its words.

    ``smart``: what the disk says of itself (see smart_facts); ``errors``: the kernel's words about I/O errors since
    the last check.
    """

    probe: str = "none"
    note: str = ""
    smart: Mapping[str, Any] = {}
    errors: tuple[str, ...] = ()


class Health(NamedTuple):
    """The verdict and what it was made from. ``good`` and ``slow`` count checks in a row."""

    state: str = HEALTH_UNKNOWN
    reason: str = "NotChecked"
    message: str = ""
    good: int = 0
    slow: int = 0


def judge(before: Health, evidence: Evidence) -> Health:
    """The verdict after one more check."""
    slow = before.slow + 1 if evidence.probe == "slow" else 0
    trouble = _trouble(evidence, slow)
    if trouble:
        return Health(FAULTED, *trouble, good=0, slow=slow)
    if before.state == FAULTED:
        good = before.good + 1 if evidence.probe == "ok" else before.good if evidence.probe == "none" else 0
        if good < GOOD_PROBES:
            return before._replace(good=good, slow=slow)
        return Health(HEALTHY, "Healed", f"{good} good checks after: {before.message}"[:1024], slow=slow)
    if evidence.probe == "ok" or evidence.smart.get("passed"):
        reason = before.reason if before.state == HEALTHY else "Checked"
        return Health(HEALTHY, reason, before.message if before.state == HEALTHY else "", slow=slow)
    return before._replace(slow=slow)


def _trouble(evidence: Evidence, slow: int) -> tuple[str, str] | None:
    smart = smart_trouble(evidence.smart)
    if smart:
        return "SelfReported", smart
    if evidence.probe == "failed":
        return "ProbeFailed", evidence.note
    if evidence.errors:
        more = f" (and {len(evidence.errors) - 1} more)" if len(evidence.errors) > 1 else ""
        return "KernelErrors", f"the kernel reports: {evidence.errors[0]}{more}"
    if slow >= SLOW_PROBES:
        return "NoAnswer", f"{evidence.note}, {slow} times in a row"
    return None


def smart_trouble(smart: Mapping[str, Any]) -> str:
    """Why the disk calls itself failing; empty when it does not."""
    if smart.get("passed") is False:
        warning = smart.get("criticalWarning")
        return f"the disk says that it fails (SMART{f', critical warning {warning:#04x}' if warning else ''})"
    if smart.get("criticalWarning"):
        return f"the disk gives critical warning {smart['criticalWarning']:#04x} (NVMe health)"
    return ""


def smart_facts(report: Mapping[str, Any]) -> dict[str, Any]:
    """What counts of a report of ``smartctl --json -H -A``; empty where the disk or smartctl says nothing.

    Only what changes rarely: ``passed``, ``criticalWarning``, ``mediaErrors``, ``reallocatedSectors``,
    ``pendingSectors`` (counts), ``percentageUsed``. Temperature and hours would be written to the API all day.
    """
    nvme = _mapping(report.get("nvme_smart_health_information_log"))
    attributes = {row.get("id"): _mapping(row.get("raw")).get("value") for row in _rows(report)}
    facts = {
        "passed": _mapping(report.get("smart_status")).get("passed"),
        "criticalWarning": nvme.get("critical_warning"),
        "mediaErrors": nvme.get("media_errors"),
        "percentageUsed": nvme.get("percentage_used"),
        "reallocatedSectors": attributes.get(5, report.get("scsi_grown_defect_list")),
        "pendingSectors": attributes.get(197),
    }
    return {key: value for key, value in facts.items() if isinstance(value, bool if key == "passed" else int)}


def from_status(status: Mapping[str, Any]) -> Health:
    """The verdict that the last agent wrote down: a faulted disk stays so over a restart, until it is proven healed."""
    known = _mapping(status.get("health"))
    if known.get("state") != FAULTED:
        return Health()
    return Health(FAULTED, str(known.get("reason") or ""), str(known.get("message") or ""))


def to_status(health: Health, smart: Mapping[str, Any], before: Mapping[str, Any], now: str) -> dict[str, Any]:
    """``status.health``; ``since`` changes with the state alone."""
    since = before.get("since") if before.get("state") == health.state else None
    status = {"state": health.state, "reason": health.reason, "since": since or now}
    if health.message:
        status["message"] = health.message[:1024]
    return {**status, "smart": dict(smart)} if smart else status


def _rows(report: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    table = _mapping(report.get("ata_smart_attributes")).get("table")
    return [row for row in table if isinstance(row, Mapping)] if isinstance(table, list) else []


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
