"""Lines of the kernel's log as kernels of these years write them."""

from __future__ import annotations

import pytest

from berth_core.app.kernel_log import error_of


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("I/O error, dev loop3, sector 8 op 0x1:(WRITE) flags 0x800 phys_seg 1 prio class 2", "loop3"),
        ("blk_update_request: I/O error, dev sdb, sector 2048 op 0x0:(READ) flags 0x0 phys_seg 1", "sdb"),
        ("critical medium error, dev nvme0n1, sector 8 op 0x0:(READ) flags 0x80700 phys_seg 4 prio class 2", "nvme0n1"),
        ("Buffer I/O error on dev loop3, logical block 0, lost sync page write", "loop3"),
        ("Buffer I/O error on device sdb1, logical block 8486", "sdb"),
        ("Buffer I/O error on dev nvme0n1p2, logical block 1, async page read", "nvme0n1"),
        ("EXT4-fs error (device sdb): ext4_journal_check_start:83: comm x: Detected aborted journal", "sdb"),
        ("EXT4-fs (loop3): I/O error while writing superblock", "loop3"),
        ("EXT4-fs (sda): Remounting filesystem read-only", "sda"),
        ("Aborting journal on device loop3-8.", "loop3"),
        ("XFS (loop3): log I/O error -5", "loop3"),
        ('XFS (sdb): metadata I/O error in "xfs_trans_read_buf_map+0x1" at daddr 0x1 len 1 error 5', "sdb"),
        ("XFS (nvme1n1): Filesystem has been shut down due to log error (0x2).", "nvme1n1"),
    ],
)
def test_errors_of_a_disk(line: str, name: str) -> None:
    assert error_of(f"3,1234,5678,-;{line}\n SUBSYSTEM=block\n") == (name, line[:200])


@pytest.mark.parametrize(
    "line",
    [
        "sd 0:0:0:0: [sdb] Attached SCSI disk",
        "EXT4-fs (sdb): mounted filesystem with ordered data mode",
        "XFS (sdb): Ending clean mount",
        "I/O error, dev sdb, sector 0 op 0x3:(DISCARD) flags 0x800 phys_seg 1",
        "critical target error, dev sdb, sector 0 op 0x9:(WRITE_ZEROES) flags 0x800",
        "blk_update_request: operation not supported error, dev loop3, sector 0 op 0x9:(WRITE_ZEROES)",
        "somebody writes I/O error into the log",
        "",
    ],
)
def test_everything_else(line: str) -> None:
    assert error_of(f"6,1,2,-;{line}\n") is None
    assert error_of(line) is None
