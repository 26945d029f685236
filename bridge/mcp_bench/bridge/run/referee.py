"""One of several referee processes of a run: it records the attempts that the run's process orders.

Run as `python -m mcp_bench.bridge.run.referee FD`, with a socket. The lines on it are in
`mcp_bench.bridge.engines.messages`. The end of the socket, or of the run's process, ends all attempts; what
was recorded is kept. SIGTERM ends everything at once.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio

from mcp_bench.bridge.engines.apart import Apart
from mcp_bench.bridge.engines.channel import Channel, Lines, channel_on
from mcp_bench.bridge.engines.engine import ThisProcess, end_own_processes
from mcp_bench.bridge.engines.messages import OUTCOME, Order, Work
from mcp_bench.bridge.episode.attempt import Setup
from mcp_bench.bridge.isolation.canaries import canaries_in_place
from mcp_bench.bridge.run.setup import setup_again
from mcp_bench.bridge.sandbox.runners.configured import check_sandboxes
from mcp_bench.recorder.records import now_us
from mcp_bench.recorder.runs.run_folder import RunFolder
from mcp_bench.servers.errors import WrongUseError, bench_errors
from mcp_bench.servers.hardening import harden
from mcp_bench.servers.needs import SANDBOX, unmet
from mcp_bench.servers.terminal.sanitized_logs import show_safely

CALLS_SECONDS = 0.5
"""How often the number of calls is reported."""


def main() -> None:
    """Serve the socket whose descriptor is the first argument."""
    harden()
    show_safely()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: end_now())
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    control = socket.socket(fileno=int(sys.argv[1]))
    orders = control.makefile("rb")
    work = Work.model_validate_json(orders.readline())
    with channel_on(control) as channel:
        setup = setup_again(work.run, work.base_url)
        check_needs(work, setup)
        with part_of(work) as part:
            sys.stderr = Lines(channel).text()
            engine = Apart(setup, part) if work.apart else ThisProcess(setup, part)
            gc.freeze()  # modules are never collected
            anyio.run(serve, engine, orders, channel)


def check_needs(work: Work, setup: Setup) -> None:
    """Check that tasks find here what they need. GPUs and memory are reserved for each attempt.

    Raises:
        BenchError: something is missing.
    """
    needs = {need for one in work.needs for need in one}
    if why := unmet(need for need in needs if need.startswith(("program:", "package:"))):
        raise WrongUseError("; ".join(why))
    if SANDBOX in needs:
        check_sandboxes(setup.sandbox)


def end_now() -> None:
    end_own_processes()
    os._exit(1)


@contextmanager
def part_of(work: Work) -> Iterator[RunFolder]:
    """Open the part of the run, with the run's canaries."""
    with RunFolder(Path(work.part), work.run) as part:
        for canary in work.canaries:
            part.grades.put_canary(canary, now_us())
        with canaries_in_place(part):
            yield part


async def serve(recorder: ThisProcess, orders: Any, channel: Channel) -> None:
    """Record what is ordered, until the orders end."""
    attempts: dict[int, anyio.CancelScope] = {}

    async with recorder as engine, anyio.create_task_group() as tasks:

        def obey(order: Order) -> None:
            if order.planned is not None:
                attempts[order.id] = anyio.CancelScope()
                tasks.start_soon(attempt, order, attempts[order.id])
            elif order.id in attempts:
                attempts[order.id].cancel()

        def listen() -> None:
            for line in orders:
                anyio.from_thread.run_sync(obey, Order.model_validate_json(line))

        async def attempt(order: Order, scope: anyio.CancelScope) -> None:
            report: dict[str, Any] = {"id": order.id}
            with scope:
                try:
                    outcome = await engine.obey(order)
                    report["outcome"] = OUTCOME.dump_json(outcome).decode()
                except Exception as error:  # the run's process decides what becomes of the run
                    texts = dict.fromkeys(str(failure) for failure in bench_errors(error))
                    report["error"] = "\n".join(texts) or traceback.format_exc()
            del attempts[order.id]
            channel.send({**report, "calls": engine.calls_made})

        async def report_calls() -> None:
            last = -1
            while True:
                if engine.calls_made != last:  # 1,000 nodes of a cluster would send 2,000 lines a second
                    last = engine.calls_made
                    channel.send({"calls": last})
                await anyio.sleep(CALLS_SECONDS)

        tasks.start_soon(report_calls)
        channel.send({"ready": True})
        await anyio.to_thread.run_sync(listen)
        tasks.cancel_scope.cancel()


if __name__ == "__main__":
    main()
