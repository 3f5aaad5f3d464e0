"""What is known of the task that runs: read from git's own files, and never a failure."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ansible_collections.berth.stateful.plugins.plugin_utils.ran import commit


def git(folder: Path, *args: str) -> str:
    who = ("-c", "user.name=x", "-c", "user.email=x@example.org")
    done = subprocess.run(["git", "-C", str(folder), *who, *args], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "site"
    folder.mkdir()
    git(folder, "init", "-q")
    git(folder, "commit", "-q", "--allow-empty", "-m", "x")
    return folder


def test_the_commit_is_what_git_says(repository: Path) -> None:
    head = git(repository, "rev-parse", "HEAD")
    below = repository / "playbooks" / "deep"
    below.mkdir(parents=True)
    assert commit(str(below)) == head
    git(repository, "pack-refs", "--all")
    assert commit(str(repository)) == head, "of a packed ref"
    git(repository, "worktree", "add", "-q", "../other", "-b", "other")
    git(repository.parent / "other", "commit", "-q", "--allow-empty", "-m", "y")
    other = git(repository.parent / "other", "rev-parse", "HEAD")
    assert commit(str(repository.parent / "other")) == other != head, "of a linked work tree"
    git(repository, "pack-refs", "--all")
    assert commit(str(repository.parent / "other")) == other, "packed refs are those of all work trees"
    git(repository, "checkout", "-q", "--detach")
    assert commit(str(repository)) == head, "without a branch"


@pytest.mark.parametrize("head", ["", "ref: refs/heads/none", "ref: ../../secret", "\x00", "ref: " + "x" * 10_000])
def test_what_is_no_commit_is_left_out(tmp_path: Path, head: str) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text(head)
    (tmp_path.parent / "secret").write_text("a password")
    assert commit(str(tmp_path)) == ""


def test_without_a_repository_there_is_none(tmp_path: Path) -> None:
    assert commit(str(tmp_path)) == ""
    (tmp_path / ".git").write_bytes(b"\xff\xfe")
    assert commit(str(tmp_path)) == ""
