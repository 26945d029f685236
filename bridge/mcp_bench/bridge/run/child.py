"""Record in a process of its own, for a program that must not become a referee: `mcp_bench.api`.

A referee adopts orphans, ends its children and hides its memory. None of that may happen to a notebook. So
the API starts this module with a socket as its argument:

1. The caller sends one JSON line with the options (`Request`). They are in no command line.
2. It gets a JSON line for each event of the run (`mcp_bench.bridge.run.events`), for each line of text, and
   for an error. The caller is the operator, so the events have grades.
3. It can send the line `stop`, which is like Ctrl-C: the agents end, and recordings are kept. A second one
   exits at once. The end of the socket, or of the caller's process, is a stop, too.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict

from mcp_bench.bridge.engines.channel import Channel, Lines
from mcp_bench.bridge.engines.parallel import AUTO, Parallel
from mcp_bench.bridge.run.events import Event, encode
from mcp_bench.recorder.option_fields import AboveZero, Count
from mcp_bench.servers.errors import bench_errors
from mcp_bench.servers.hardening import harden
from mcp_bench.servers.terminal.sanitized_logs import show_safely

if TYPE_CHECKING:
    from mcp_bench.bridge.episode.attempt import Setup
    from mcp_bench.recorder.runs.run_folder import RunFolder

STOP = b"stop\n"


class Request(BaseModel):
    """What to record: either new episodes or the rest of a run."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    parent: int = 0
    """The caller's process."""
    terminal: bool = False
    """Whether stderr is the user's terminal, on which to show progress. Else its lines become events."""
    jobs: Count
    referees: Count | Literal["auto"] = AUTO
    ray: bool = False
    address: str | None = None
    choices: dict[str, Any] | None = None
    """Fields of `Choices`."""
    resume: str | None = None
    max_cost: AboveZero | None = None
    """With `resume`: the new limit in US dollars."""
    run_tags: tuple[str, ...] = ()
    """With `resume`: tags to add to the run."""
    note: str | None = None
    """With `resume`: a new note."""
    base_url: str | None = None
    """With `resume`: the run's model endpoint with the login in its URL, which is not stored."""


def main() -> None:
    """Serve one request on the socket whose descriptor is the first argument."""
    harden()
    show_safely()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT, signal.SIGTERM])
    control = socket.socket(fileno=int(sys.argv[1]))
    orders = control.makefile("rb")
    request = Request.model_validate_json(orders.readline())
    channel = Channel(control, request.parent)
    if not request.terminal:
        sys.stderr = Lines(channel).text()
    try:
        watch(orders, request.parent)
        record(request, channel)
    except KeyboardInterrupt:  # if the caller asked for it, it does not look at this
        channel.send({"error": ["BenchError"], "text": "a signal stopped the run"})
    except BaseException as error:
        failures = list(bench_errors(error))
        if not failures:
            sys.stderr = sys.__stderr__  # where the caller looks for the traceback
            raise
        texts = dict.fromkeys(str(failure) for failure in failures)
        kinds = [kind.__name__ for kind in type(failures[0]).__mro__]
        channel.send({"error": kinds, "text": "\n".join(texts)})
    finally:
        channel.close()


def watch(orders: Any, parent: int) -> None:
    """Send this process the signals of Ctrl-C and SIGTERM, as the caller orders and when it is gone."""
    stopped = threading.Lock()

    def ended() -> None:
        if stopped.acquire(blocking=False):  # a second signal would exit at once
            os.kill(os.getpid(), signal.SIGTERM)

    def obey() -> None:
        with suppress(OSError):
            for order in orders:
                if order == STOP:
                    stopped.acquire(blocking=False)
                    os.kill(os.getpid(), signal.SIGINT)
        ended()

    def wait_for_parent() -> None:
        with suppress(OSError):
            process = os.pidfd_open(parent)
            if os.getppid() == parent:
                select.select([process], [], [])
        ended()

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # until the run has its own
    # copies of the socket can be in processes that the caller forked: its end alone says too little
    for work in (obey, wait_for_parent):
        threading.Thread(target=work, daemon=True).start()


def record(request: Request, channel: Channel) -> None:
    """Record, and report each event."""
    from mcp_bench.bridge.run.reporting import ReportingDisplay
    from mcp_bench.bridge.run.run import run_to_end

    def report(event: Event) -> None:
        channel.send(encode(event))

    parallel = Parallel(request.jobs, request.referees, request.ray, request.address)
    with opened(request, parallel) as (setup, run):
        display_of = partial(ReportingDisplay, setup=setup, run=run, report=report, status=channel.send)
        ended = run_to_end(setup, run, parallel, request.max_cost, display_of)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    report(ended)


@contextmanager
def opened(request: Request, parallel: Parallel) -> Iterator[tuple[Setup, RunFolder]]:
    from mcp_bench.bridge.run.choices import Choices
    from mcp_bench.bridge.run.setup import resume_run, start_run

    if request.resume is not None:
        setup, run = resume_run(
            request.resume, request.max_cost, request.run_tags, request.note, request.base_url
        )
    else:
        setup, run = start_run(Choices(**request.choices or {}), elsewhere=parallel.ray)
    with run:
        yield setup, run


if __name__ == "__main__":
    main()
