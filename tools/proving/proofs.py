"""The store of proofs: which stage was green on which inputs. One file in the user's cache folder, for all checkouts.

    $XDG_CACHE_HOME (or ~/.cache)/berth-proofs/proofs.json

A store that cannot be read or written costs time, never a run: without a proof a stage runs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import pathlib
import tempfile
from collections.abc import Iterator

VERSION = 1
#: Proofs of a stage that are kept: whoever goes back to an earlier commit has them still.
KEPT = 12
FIELDS: dict[str, tuple[type, ...]] = {"commit": (str,), "date": (str,), "seconds": (int, float), "tests": (int,)}


@dataclasses.dataclass(frozen=True)
class Proof:
    """One green run: of which commit, on which day (ISO 8601), in how many seconds, with how many tests."""

    commit: str
    date: str
    seconds: float
    tests: int


def default_path() -> pathlib.Path:
    """Where the store lies for this user."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return pathlib.Path(base) / "berth-proofs" / "proofs.json"


class Store:
    """Proofs by stage and digest. ``trouble`` says in one line why there are none, ``unkept`` why one was not kept."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        self.trouble = self.unkept = ""
        self._proofs = self._read()

    def find(self, stage: str, digest: str) -> Proof | None:
        """The proof of a stage on exactly these inputs."""
        return self._proofs.get(stage, {}).get(digest)

    def keep(self, stage: str, digest: str, proof: Proof) -> None:
        """Write one down at once, beside what other checkouts have written meanwhile."""
        try:
            with self._locked():
                self._proofs = self._read()
                of_stage = self._proofs.setdefault(stage, {})
                of_stage.pop(digest, None)
                of_stage[digest] = proof
                for oldest in list(of_stage)[:-KEPT]:
                    del of_stage[oldest]
                self._write()
        except OSError as error:
            self.unkept = f"not kept in {self.path}: {error.strerror}; what was green now runs again the next time"

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(self.path.with_suffix(".lock"), "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _read(self) -> dict[str, dict[str, Proof]]:
        try:
            content = json.loads(self.path.read_text(encoding="utf-8"))
            if content["version"] != VERSION:
                self.trouble = f"{self.path} is of version {content['version']}, not {VERSION}: every stage runs"
                return {}
            return {
                stage: {digest: _proof(fields) for digest, fields in kept.items()}
                for stage, kept in content["proofs"].items()
            }
        except FileNotFoundError:
            return {}
        except OSError as error:
            self.trouble = f"{self.path} cannot be read ({error.strerror}): every stage runs"
        except (ValueError, TypeError, KeyError, AttributeError):
            self.trouble = f"{self.path} is damaged: every stage runs, and a new file takes its place"
        return {}

    def _write(self) -> None:
        proofs = {
            stage: {digest: dataclasses.asdict(proof) for digest, proof in kept.items()}
            for stage, kept in self._proofs.items()
        }
        handle, name = tempfile.mkstemp(dir=self.path.parent)
        try:
            with open(handle, "w", encoding="utf-8") as stream:
                json.dump({"version": VERSION, "proofs": proofs}, stream, indent=1)
            os.replace(name, self.path)
        except OSError:
            # A full disk must not become fuller with each stage.
            os.unlink(name)
            raise


def _proof(fields: dict[str, object]) -> Proof:
    """One entry of the file. Raises TypeError where it does not have the form of one."""
    if set(fields) != set(FIELDS) or not all(isinstance(fields[name], kind) for name, kind in FIELDS.items()):
        raise TypeError(f"not a proof: {fields}")
    return Proof(**fields)  # type: ignore[arg-type]
