"""Commits to PostgreSQL one row after the other, and writes each commit that was acknowledged to a journal of its own.

Started by `postgresql.Commits` as a process: ``python -m tests.support.commits JOURNAL HOST``. A number is in the
journal, flushed to the disk, only after the server has answered for its transaction; so whatever happens to the server,
every number of the journal must be in the table afterwards. More than one row may be there: an answer can be lost.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from pathlib import Path

#: A server that says nothing for so long is given up, and connected to anew.
SILENCE = 10.0
#: Ten a second are enough around each fault, and each costs an fsync.
PAUSE = 0.1


def command(host: str) -> list[str]:
    """psql that stays connected, runs what it is given line by line, and ends at the first error."""
    words = f"host={host} user=postgres dbname=postgres connect_timeout=3 tcp_user_timeout=8000 sslmode=disable"
    return ["psql", "-XqAt", "-v", "ON_ERROR_STOP=1", words]


class Connection:
    """One psql."""

    def __init__(self, host: str) -> None:
        self.process = subprocess.Popen(
            command(host), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
        )
        self._rest = b""

    def ask(self, statement: str) -> str:
        """One line of answer. OSError when there is none."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{statement};\n".encode())
        return self._line()

    def _line(self) -> str:
        assert self.process.stdout is not None
        until = time.monotonic() + SILENCE
        while b"\n" not in self._rest:
            ready, _w, _x = select.select([self.process.stdout], [], [], max(0.0, until - time.monotonic()))
            data = os.read(self.process.stdout.fileno(), 4096) if ready else b""
            if not data:
                raise OSError("the server has gone" if ready else "the server says nothing")
            self._rest += data
        line, _newline, self._rest = self._rest.partition(b"\n")
        return line.decode()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def begin(connection: Connection) -> int:
    """The table is there; the next number."""
    connection.ask("create table if not exists commits (number bigint primary key, at timestamptz); select 1")
    return int(connection.ask("select coalesce(max(number), 0) + 1 from commits"))


def write(journal: int, host: str) -> None:
    """Until the connection breaks. Raises OSError, ValueError (an answer that is none)."""
    connection = Connection(host)
    try:
        number = begin(connection)
        os.write(journal, b"connected\n")
        while True:
            answer = connection.ask(f"insert into commits values ({number}, now()) returning number")
            if int(answer) != number:
                raise ValueError(f"asked for {number}, answered {answer}")
            os.write(journal, f"{number}\n".encode())
            os.fsync(journal)
            number += 1
            time.sleep(PAUSE)
    finally:
        connection.close()


def main(path: str, host: str) -> None:
    journal = os.open(Path(path), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    while True:
        try:
            write(journal, host)
        except (OSError, ValueError) as exc:
            os.write(journal, f"broken: {' '.join(str(exc).split())}\n".encode())
        time.sleep(0.3)


if __name__ == "__main__":
    main(*sys.argv[1:])
