"""A private PostgreSQL of Debian's package on a unix socket: started, killed, and started again by a test."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from berth_dev.errors import BuildError

PASSWORD = "not-a-secret"


def programs() -> Path:
    """Where Debian has initdb and postgres, the newest of them."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    if not found:
        raise BuildError("PostgreSQL is not installed: make deps")
    return found[-1]


class PostgreSQL:
    """Its folder is one that the user postgres reaches, as pytest's own is not. Passwords are asked for."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="berth-pg-"))
        self._user: dict[str, Any] = {}
        if os.geteuid() == 0:
            entry = pwd.getpwnam("postgres")
            self._user = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
        (self.folder / "password").write_text(PASSWORD)
        if self._user:
            for path in (self.folder, self.folder / "password"):
                os.chown(path, self._user["user"], self._user["group"])
        how = ("--auth=scram-sha-256", "--pwfile", str(self.folder / "password"), "--username=berth", "--no-sync")
        self._call("initdb", "--pgdata", str(self.folder / "data"), "--encoding=UTF8", "--locale=C", *how)
        self.process: subprocess.Popen[bytes] | None = None

    def uri(self, database: str = "postgres", user: str = "berth", **options: str) -> str:
        more = "".join(f"&{name}={value}" for name, value in options.items())
        return f"postgresql://{user}@/{database}?host={self.folder}{more}"

    def start(self) -> PostgreSQL:
        """Until it answers. After a kill its last processes are waited for: it does not start beside them."""
        for _try in range(200):
            if self.process is None or self.process.poll() is not None:
                self.process = self._server()
            if self._answers():
                return self
            time.sleep(0.1)
        raise TimeoutError((self.folder / "log").read_text())

    def _server(self) -> subprocess.Popen[bytes]:
        options = ("-c", "listen_addresses=", "-c", f"unix_socket_directories={self.folder}")
        command = [str(programs() / "postgres"), "-D", str(self.folder / "data"), *options]
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", **self._user)

    def _answers(self) -> bool:
        command = [str(programs() / "pg_isready"), "--quiet", "--username=berth", "--host", str(self.folder)]
        return subprocess.run(command, check=False).returncode == 0

    def sql(self, statement: str) -> str:
        """By psql, as a person types it."""
        command = ["psql", "--no-psqlrc", "-Atq", "-v", "ON_ERROR_STOP=1", "--dbname", self.uri(), "-c", statement]
        environment = {**os.environ, "PGPASSWORD": PASSWORD}
        done = subprocess.run(command, env=environment, text=True, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def kill(self) -> None:
        """With the processes of its sessions: one of these would answer its client for a moment longer."""
        assert self.process is not None
        pid = self.process.pid
        self.process.send_signal(signal.SIGSTOP)  # it starts no other meanwhile
        sessions = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        self.process.kill()
        for session in sessions:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(session), signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)  # without waiting for sessions
            self.process.wait(60)
        shutil.rmtree(self.folder)

    def _call(self, program: str, *arguments: str) -> None:
        command = [str(programs() / program), *arguments]
        done = subprocess.run(command, cwd="/", text=True, capture_output=True, check=False, **self._user)
        assert done.returncode == 0, done.stdout + done.stderr
