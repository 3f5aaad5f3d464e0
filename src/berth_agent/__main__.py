"""The command ``berth-agent``: run, once, check-config. The composition root; `agent` is what runs.

Exit status: 0 done, 1 failed, 2 the command line or the configuration is wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from berth_core.errors import BerthError, InputError, StateError
from berth_host.machine import Machine

from . import VERSION
from .command_line import CONFIG, check_options, parser
from .config import Configuration
from .config_check import check_text

if TYPE_CHECKING:
    from .single import HostLock

LOG = logging.getLogger("berth_agent")


def check_config(path: Path) -> int:
    """Print what is wrong, as ``FILE:LINE: what``; the exit status."""
    try:
        text = path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        why = exc.strerror if isinstance(exc, OSError) else "it is not UTF-8"
        sys.stderr.write(f"{path}: cannot be read: {why}\n")
        return 2
    checked = check_text(text)
    for problem in checked.problems:
        sys.stderr.write(f"{path}:{problem.line}: {problem.what}\n")
    if not checked.problems:
        sys.stdout.write(f"{path}: in order, {checked.digest}\n")
    return 2 if checked.problems else 0


async def run(options: argparse.Namespace) -> None:
    """One agent, from the configuration to the end."""
    from berth_kube import config
    from berth_kube.client import KubeClient
    from berth_kube.token import renew_token

    from .agent import COMPONENT, Agent, utc_now
    from .single import HostLock as Lock

    access = config.load(options.kubeconfig)
    configuration = Configuration(options.config or [Path(CONFIG)], options.node_name, options.state_directory, utc_now)
    configuration.start()
    lock = Lock(options.state_directory)
    await _take(lock, options.command == "once")
    agent_name = f"{COMPONENT}/{VERSION}"
    async with (
        KubeClient(access, user_agent=agent_name, field_manager=COMPONENT) as client,
        KubeClient(access, user_agent=agent_name, field_manager=COMPONENT, connections=1) as lease_client,
    ):
        machine = Machine(options.tree, options.host_root)
        agent = Agent(configuration, client, lease_client, access, VERSION, lock, machine, options.namespace)
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, agent.reload)
        jobs = [asyncio.ensure_future(agent.run(options.command == "once"))]
        if options.renew_token:
            jobs.append(asyncio.ensure_future(renew_token(lease_client, Path(options.renew_token))))
        if options.ready_file:
            agent.when_ready(lambda: Path(options.ready_file).touch())
        await _until_stopped(jobs)


async def _take(lock: HostLock, once: bool) -> None:
    """One agent works on a host; ``once`` waits for nobody, because the one that runs publishes everything anyway."""
    try:
        if not once:
            await lock.wait()
            return
        taken = lock.take()
    except OSError as exc:
        raise InputError(
            f"--state-directory {lock.path.parent} cannot be used: {exc.strerror or exc}; expected a directory in which"
            " the agent may make files, on a filesystem with room for one"
        ) from exc
    if not taken:
        raise StateError(f"an agent (pid {lock.owner()}) works on this host already: it publishes what is there")


async def _until_stopped(jobs: list[asyncio.Task[None]]) -> None:
    """Until one of them ends (its error is the process's) or it is told to stop; then all are cancelled."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    stopped = asyncio.ensure_future(_wait_for(stop))
    running = [*jobs, stopped]
    try:
        done, _pending = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        for job in done:
            job.result()
    finally:
        for job in running:
            job.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _wait_for(stop: asyncio.Event) -> None:
    await stop.wait()


def main(argv: Sequence[str] | None = None) -> int:
    """The entry point."""
    options = parser().parse_args(argv)
    if options.command == "check-config":
        return check_config(options.file)
    from berth_kube import logs

    logs.setup(options.log_format, options.log_level.upper())
    try:
        check_options(options)
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(run(options))
    except InputError as exc:
        LOG.error("%s", exc.message)
        return 2
    except BerthError as exc:
        LOG.error("%s", exc.message)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
