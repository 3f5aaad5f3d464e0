"""The kernel names a disk by its name of that moment: what was said of a disk that is gone is not said of the next."""

from __future__ import annotations

from pathlib import Path

from berth_agent.disks.kernel_log import KernelLog
from berth_host.machine import Machine

RECORD = "3,1200,99000000,-;I/O error, dev {name}, sector 8 op 0x1:(WRITE) flags 0x800 phys_seg 1 prio class 2\n"


def attach(root: Path, name: str, sequence: str) -> None:
    """A disk with that number of its attachment has that kernel name now; an empty number: it is gone."""
    folder = root / "sys/block" / name
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "diskseq"
    file.write_text(f"{sequence}\n") if sequence else file.unlink()


def test_words_about_a_disk_are_taken_once(tmp_path: Path) -> None:
    attach(tmp_path, "sda", "7")
    log = KernelLog(Machine(str(tmp_path)))
    log.note(RECORD.format(name="sda1"))
    log.note("6,1201,99000001,-;sda: detected capacity change\n")
    assert log.take("sdb") == ()
    assert [words.partition(",")[0] for words in log.take("sda")] == ["I/O error"]
    assert log.take("sda") == ()


def test_another_disk_under_the_same_name_is_not_blamed(tmp_path: Path) -> None:
    attach(tmp_path, "sda", "7")
    log = KernelLog(Machine(str(tmp_path)))
    log.note(RECORD.format(name="sda"))
    attach(tmp_path, "sda", "")
    log.note(RECORD.format(name="sda"))
    attach(tmp_path, "sda", "9")
    assert log.take("sda") == ()
    log.note(RECORD.format(name="sda"))
    assert len(log.take("sda")) == 1


def test_a_flood_is_kept_short(tmp_path: Path) -> None:
    attach(tmp_path, "sda", "7")
    log = KernelLog(Machine(str(tmp_path)))
    for _index in range(1000):
        log.note(RECORD.format(name="sda"))
    assert len(log.take("sda")) == 16
