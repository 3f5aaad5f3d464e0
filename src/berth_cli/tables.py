"""Answers as text: columns like kubectl's. Called by __main__; what is in them, commands.py says.

Text that comes from the cluster goes to a terminal here: control characters become visible.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from berth_core.app import berth_history, kept_data
from berth_core.app.overview import pod_text, spoken
from berth_core.model import times
from berth_core.model.quantity import format_bytes, format_cpu

Answer = Mapping[str, Any]
_GAP = "   "


def clean(value: object) -> str:
    """A value without anything that a terminal would obey."""
    text = "" if value is None else str(value)
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Columns as wide as their widest cell; a dash for what is empty."""
    lines = [tuple(head), *(tuple(clean(cell) or "-" for cell in row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "".join(
        _GAP.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() + "\n" for line in lines
    )


def show(answer: Answer) -> str:
    """Berths, then who holds which disk and device."""
    called = spoken(answer["berths"])
    berths = table(
        ("NAMESPACE", "APP", "ORDINAL", "PHASE", "NODE", "POD", "DISKS", "DEVICES"),
        [
            (
                *(row[key] for key in ("namespace", "app", "ordinal", "phase", "node")),
                pod_text(row),
                ",".join(disk["name"] for disk in row["disks"]),
                ",".join(f"{device['name']}({device['shares']})" for device in row["devices"]),
            )
            for row in answer["berths"]
        ],
    )
    disks = table(
        ("NODE", "DISK", "CLASS", "SIZE", "PHASE", "HOLDER", "CLAIM"),
        [
            (
                *(disk["node"], disk["name"], disk["storage_class"], format_bytes(disk["size"]), disk["phase"]),
                *_held(disk, called),
            )
            for disk in answer["disks"]
        ],
    )
    devices = table(
        ("NODE", "DEVICE", "CLASS", "FREE SHARES", "PHASE", "HOLDERS"),
        [
            (
                *(device[key] for key in ("node", "name", "device_class")),
                f"{device['free_shares']} of {device['shares']}",
                device["phase"],
                ",".join(f"{one['namespace']}/{one['berth']}({one['shares']})" for one in device["holders"]),
            )
            for device in answer["devices"]
        ],
    )
    parts = (berths, disks, devices if answer["devices"] else "", kept(answer))
    return "\n".join(part for part in parts if part)


def apps(answer: Answer) -> str:
    """A line for each StatefulApp; of a single one its revisions."""
    rows = [
        (
            *(one[key] for key in ("namespace", "name", "driver")),
            f"{one['ready']}/{one['replicas']}",
            one["updated"],
            one["state"],
            one["revision"],
            one["message"],
        )
        for one in answer["apps"]
    ]
    told = table(("NAMESPACE", "APP", "DRIVER", "READY", "UPDATED", "STATE", "REVISION", "MESSAGE"), rows)
    known = _revisions(answer["apps"][0]) if len(answer["apps"]) == 1 else ""
    return "\n".join(part for part in (told, known) if part)


def _revisions(app: Answer) -> str:
    """Those that a StatefulApp can go back to, of which one is asked for now."""
    now = datetime.now(UTC)
    rows = [
        (
            one["number"],
            one["name"],
            times.spoken(times.age(str(one.get("created")), now)),
            "asked for" if one["name"] == app["revision"] else "",
            ", ".join(f"{name}={image}" for name, image in (one.get("images") or {}).items()),
        )
        for one in app["revisions"]
    ]
    return table(("NUMBER", "REVISION", "AGE", "NOW", "IMAGES"), rows) if rows else ""


def tasks(answer: Answer) -> str:
    """A line for each Task, one for each TaskBatch, and one for each reason for which tasks of a batch have failed."""
    now = datetime.now(UTC)
    rows = [
        (
            *(one[key] for key in ("namespace", "name", "queue", "state", "tries", "node", "exit_code")),
            times.spoken(times.age(str(one["created_at"]), now)),
            one["reason"],
        )
        for one in answer["tasks"]
    ]
    single = table(("NAMESPACE", "TASK", "QUEUE", "STATE", "TRIES", "NODE", "EXIT", "AGE", "REASON"), rows)
    batches = answer["batches"]
    if not batches:
        return single
    figures = ("DONE", "RUNNING", "FAILED", "KILLED", "RATE", "ETA")
    head = ("NAMESPACE", "BATCH", "QUEUE", "STATE", *figures, "AGE", "REASON")
    parts = [single if rows else "", table(head, [_batch(one, now) for one in batches]), _failures(batches)]
    return "\n".join(part for part in parts if part)


def _batch(one: Mapping[str, Any], now: datetime) -> tuple[object, ...]:
    how, counts = one["progress"], one["counts"]
    return (
        *(one[key] for key in ("namespace", "name", "queue", "state")),
        f"{how['ended']}/{how['total']}" if how["total"] else "",
        *(counts.get(key) for key in ("running", "failed", "killed")),
        "" if how["per_second"] is None else f"{how['per_second']:g}/s",
        times.spoken(how["seconds_left"]),
        times.spoken(times.age(str(one["created_at"]), now)),
        one["reason"],
    )


def _failures(batches: Iterable[Mapping[str, Any]]) -> str:
    rows = [
        (one["namespace"], one["name"], *(row[key] for key in ("count", "reason", "exit_code", "example")))
        for one in batches
        for row in one["reasons"]
    ]
    return table(("NAMESPACE", "BATCH", "FAILED", "REASON", "EXIT", "AS"), rows) if rows else ""


def kept(answer: Answer) -> str:
    """Of each disk that keeps data without a holder: whose, since when, and how it goes."""
    disks = kept_data.kept(answer["disks"])
    return "KEPT DATA: " + kept_data.KEEP + "\n" + "".join(map(_kept, disks)) if disks else ""


def _kept(disk: Mapping[str, Any]) -> str:
    data = disk["retained_for"]
    since = f", since {data['since']}" if data.get("since") else ""
    lines = [f"{disk['node']} {disk['name']}: {kept_data.whose(data)}{since}"]
    ways = kept_data.ways(disk)
    lines += [f"  {way.what}: {way.command}" for way in ways if way.command]
    lines += [] if ways else ["  a wipe is asked for"]
    return "".join(f"{clean(line)}\n" for line in lines)


def _held(disk: Mapping[str, Any], called: Mapping[tuple[str, str], str]) -> tuple[str, str]:
    holder, kept = disk["holder"], disk["retained_for"]
    if holder:
        name = called.get((holder["namespace"], holder["berth"]), holder["berth"])
        return f"{holder['namespace']}/{name}", holder["claim"]
    if kept:
        return f"data of {kept['namespace']}/{kept['app']}-{kept['ordinal']}", kept["claim"]
    return (f"({disk['why_not_free']})" if disk["why_not_free"] else "free"), ""


def top(answer: Answer) -> str:
    """Room by node, then by class."""
    nodes = table(
        ("NODE", "DISKS FREE", "ROOM FREE", "USED", "DEVICES FREE", "CPU FREE", "MEMORY FREE", "SCHEDULABLE"),
        [
            (
                node["name"],
                f"{node['disks']['free']} of {node['disks']['total']}",
                f"{format_bytes(node['disks']['free_bytes'])} of {format_bytes(node['disks']['bytes'])}",
                f"{node['used_percent']}%",
                f"{node['devices']['free_shares']} of {node['devices']['shares']}" if node["devices"]["total"] else "",
                format_cpu(node["free"].get("cpu", 0)),
                format_bytes(node["free"].get("memory", 0)),
                "yes" if node["schedulable"] else "no",
            )
            for node in answer["nodes"]
        ],
    )
    classes = table(
        ("CLASS", "DISKS FREE", "ROOM FREE", "USED", "LARGEST FREE"),
        [
            (
                one["storage_class"],
                f"{one['free']} of {one['total']}",
                f"{format_bytes(one['free_bytes'])} of {format_bytes(one['bytes'])}",
                f"{one['used_percent']}%",
                format_bytes(one["largest_free"]) if one["largest_free"] else "",
            )
            for one in answer["classes"]
        ],
    )
    return f"{nodes}\n{classes}"


def drift(answer: Answer) -> str:
    """A line for each finding."""
    if not answer["findings"]:
        return "no drift\n"
    rows = [(one["node"], one["object"], one["kind"], "; ".join(one["what"])) for one in answer["findings"]]
    return table(("NODE", "OBJECT", "KIND", "WHAT"), rows)


def history(answer: Answer) -> str:
    """A line for each change."""
    head = tuple(name.upper() for name in berth_history.HEAD)
    return table(head, [berth_history.cells(row) for row in answer["history"]])


def explain(answer: Answer) -> str:
    """What is known of each replica, and for each that waits: why, and what would help."""
    parts = [_replica(one) for one in answer["replicas"]]
    return "\n".join(parts)


def _replica(one: Mapping[str, Any]) -> str:
    lines = [f"{one['namespace']}/{one['name']}: {clean(one['says'])}"]
    lines += [f"  hint: {clean(hint)}" for hint in one.get("hints") or ()]
    nodes = one.get("nodes") or {}
    rows = [
        (
            name,
            "fits" if said["fits"] else said["plugin"],
            said["total"] if said["fits"] else "; ".join(said["reasons"]),
        )
        for name, said in nodes.items()
    ]
    text = "\n".join(lines) + "\n"
    return text + _indented(table(("NODE", "VERDICT", "SCORE OR REASONS"), rows)) if rows else text


def _indented(text: str) -> str:
    return "".join(f"  {line}\n" for line in text.splitlines())
