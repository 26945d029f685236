"""Ray's driver, as a process of a run: it passes orders to the nodes of a cluster and brings episodes home.

Run as `python -m mcp_bench.bridge.engines.on_ray.driver FD`, with a socket. To the run's process it looks
like a referee process (`mcp_bench.bridge.run.referee`). Ray can end this process at any moment, as it does
when the head of the cluster dies. The run's process then ends in order.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import sys
import tarfile
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

import anyio
from pydantic import BaseModel

from mcp_bench.bridge.engines.channel import Channel, channel_on
from mcp_bench.bridge.engines.messages import Order, Report, Work
from mcp_bench.bridge.engines.on_ray.cluster import (
    ClusterError,
    Machine,
    actor_on,
    connected,
    has,
    machines,
    reserved,
    resources,
)
from mcp_bench.bridge.engines.on_ray.node import DISTRIBUTION, PIECE_BYTES
from mcp_bench.recorder.runs.parts import ORDERED
from mcp_bench.recorder.runs.run_folder import MOVED
from mcp_bench.recorder.store.keys import NAME as KEY
from mcp_bench.recorder.store.keys import SECRET_BYTES, write_key
from mcp_bench.servers.hardening import harden
from mcp_bench.servers.terminal.sanitized_logs import show_safely

HEAD_SECONDS, HEAD_LOOKS = 3.0, 3
"""Between two looks whether the head is there, and after how many failures it is not."""
END_SECONDS = 30.0


@dataclass
class Open:
    """An attempt on a node."""

    over: anyio.Event = field(default_factory=anyio.Event)
    report: Report | None = None
    why: str = ""
    """Why there is no report."""


@dataclass
class Node:
    """A node that records."""

    machine: Machine
    actor: Any
    open: dict[int, Open] = field(default_factory=dict)
    calls: int = 0

    @property
    def load(self) -> float:
        return len(self.open) / max(self.machine.resources.get("CPU", 1.0), 1.0)


def main() -> None:
    """Serve the socket whose descriptor is the first argument."""
    harden()
    show_safely()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    control = socket.socket(fileno=int(sys.argv[1]))
    orders = control.makefile("rb")
    work = Work.model_validate_json(orders.readline())
    with channel_on(control) as channel, connected(work.address) as head:
        signal.signal(signal.SIGTERM, lambda *_: os._exit(1))  # nodes end their agents when it is gone
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        anyio.run(Driver(work, channel).serve, head, orders)


class Driver:
    """The nodes of one run, and its attempts on them."""

    def __init__(self, work: Work, channel: Channel) -> None:
        self._work = work
        self._channel = channel
        self._part = Path(work.part)
        self._key = secrets.token_hex(SECRET_BYTES)
        self._nodes: dict[str, Node] = {}
        self._failures: dict[str, str] = {}
        """By name: why a node is left out."""
        self._attempts: dict[int, anyio.CancelScope] = {}
        self._calls_before = 0
        self._ending = False
        """No attempt is waited for any more."""

    async def serve(self, head: str, orders: Any) -> None:
        """Record what is ordered, until the orders end."""
        self._store_key()
        async with anyio.create_task_group() as self._tasks, self._started():
            self._channel.send({"ready": True})
            names = ", ".join(node.machine.name for node in self._nodes.values())
            self._channel.send({"line": f"Ray cluster at {head}, nodes: {names}"})
            for name, why in self._failures.items():
                self._channel.send({"line": f"Left out: node {name}: {why}"})
            self._tasks.start_soon(self._watch_head, head)
            await anyio.to_thread.run_sync(self._listen, orders, abandon_on_cancel=True)
            self._ending = True
            self._tasks.cancel_scope.cancel()

    def _store_key(self) -> None:
        """Keep the key where the run's process looks for it: see `parts.MOVED`."""
        (self._part / MOVED).mkdir(mode=0o700)
        write_key(self._part / KEY, self._key)

    @asynccontextmanager
    async def _started(self) -> AsyncIterator[None]:
        """Ask every node whether it can record; end those that do afterwards.

        Raises:
            ClusterError: none can, or none has what some tasks need.
        """
        found = machines()
        async with anyio.create_task_group() as asking:
            for machine in found:
                asking.start_soon(self._ask, machine)
        try:
            if not self._nodes:
                reasons = "; ".join(f"{name}: {why}" for name, why in self._failures.items())
                raise ClusterError(f"no node of the Ray cluster can record. {reasons}")
            for needs in self._work.needs:
                if not any(has(node.machine, resources(needs)) for node in self._nodes.values()):
                    raise ClusterError(f"no node of the Ray cluster has what tasks need: {', '.join(needs)}")
            for node in self._nodes.values():
                self._tasks.start_soon(self._follow, node)
            yield
        finally:
            with anyio.move_on_after(END_SECONDS, shield=True):
                async with anyio.create_task_group() as ending:
                    for node in self._nodes.values():
                        ending.start_soon(_end, node)

    async def _ask(self, machine: Machine) -> None:
        try:
            actor = actor_on(machine)
            name, last = await _begun(actor, self._work)
            why = await actor.start.remote(name, last, self._key, version(DISTRIBUTION))
        except Exception as error:
            why = _words(error)
        if why:
            self._failures[machine.name] = why
        else:
            self._nodes[machine.id] = Node(machine, actor)

    def _listen(self, orders: Any) -> None:
        for line in orders:
            anyio.from_thread.run_sync(self._obey, Order.model_validate_json(line))

    def _obey(self, order: Order) -> None:
        if order.planned is not None:
            self._attempts[order.id] = anyio.CancelScope()
            self._tasks.start_soon(self._attempt, order)
        elif order.id in self._attempts:
            self._attempts[order.id].cancel()

    async def _attempt(self, order: Order) -> None:
        assert order.planned is not None  # noqa: S101 - see _obey
        report: dict[str, Any] = {}
        wanted = resources(order.planned.needs)
        with self._attempts[order.id]:
            if wanted:
                async with reserved(wanted, self._nodes, partial(self._has, wanted)) as place:
                    node = None if place is None else self._nodes.get(place)
                    report = await self._on(node, order)
            elif self._nodes:
                report = await self._on(min(self._nodes.values(), key=lambda node: node.load), order)
        del self._attempts[order.id]
        if self._ending:
            return
        self._channel.send({"id": order.id, **report, "calls": self._calls()})

    def _has(self, wanted: dict[str, float]) -> bool:
        return any(has(node.machine, wanted) for node in self._nodes.values())

    async def _on(self, node: Node | None, order: Order) -> dict[str, Any]:
        """Record an attempt on a node; return what to report."""
        if node is None:
            return {"lost": "no node that is left has what it needs, or its node was lost before it began"}
        attempt = node.open[order.id] = Open()
        try:
            try:
                await _send(node, order)
                await attempt.over.wait()
            except anyio.get_cancelled_exc_class():
                if self._ending:
                    raise
                with anyio.CancelScope(shield=True):
                    await _send(node, Order(id=order.id))
                    await attempt.over.wait()
                    await self._fetch(node, order.id)
                raise
            if attempt.report is None:
                return {"lost": f"node {node.machine.name} was lost: {attempt.why}"}
            if attempt.report.error is not None:
                await self._lose(node, attempt.report.error)
                return {"lost": f"node {node.machine.name} failed: {attempt.report.error}"}
            folder = await self._fetch(node, order.id)
            return {"outcome": attempt.report.outcome, "folder": str(folder)}
        except Exception as error:
            await self._lose(node, _words(error))
            return {"lost": f"node {node.machine.name} was lost: {_words(error)}"}
        finally:
            node.open.pop(order.id, None)

    async def _follow(self, node: Node) -> None:
        """Pass on what a node reports, until it is gone."""
        try:
            while (report := await _next_report(node)) is not None:
                if report.line is not None:
                    self._channel.send({"line": f"{node.machine.name}: {report.line}"})
                if report.calls is not None:
                    node.calls = report.calls
                    self._channel.send({"calls": self._calls()})
                if report.id in node.open:
                    attempt = node.open[report.id]
                    attempt.report = report
                    attempt.over.set()
            why = await node.actor.last_words.remote()
        except Exception as error:
            why = _words(error)
        await self._lose(node, why)

    async def _lose(self, node: Node, why: str) -> None:
        """Plan nothing on a node any more. Its open attempts are lost with it."""
        if self._nodes.pop(node.machine.id, None) is None:
            return
        self._calls_before += node.calls
        self._channel.send(
            {"line": f"Node {node.machine.name} was lost ({why}). Its open episodes are planned again"}
        )
        for attempt in node.open.values():
            attempt.why = why
            attempt.over.set()
        self._tasks.start_soon(_end, node)
        if not self._nodes:
            self._tasks.start_soon(self._give_up, why)

    async def _give_up(self, why: str) -> None:
        self._fail(f"the last node of the Ray cluster was lost: {why}")

    def _fail(self, why: str) -> NoReturn:
        """Report why the run cannot go on, at once: Ray may end this process at any moment.

        Raises:
            ClusterError: always.
        """
        self._ending = True
        self._channel.send({"error": why})
        raise ClusterError(why)

    async def _fetch(self, node: Node, attempt: int) -> Path:
        """Bring the folder of an attempt home; return where it is."""
        size = await node.actor.pack.remote(attempt)
        folder = self._part / MOVED / str(attempt)
        if size:
            with tempfile.TemporaryDirectory(dir=self._part) as aside:
                packed = Path(aside) / "packed"
                with packed.open("wb") as out:
                    for offset in range(0, size, PIECE_BYTES):
                        out.write(await node.actor.piece.remote(attempt, offset))
                whole = Path(aside) / "whole"
                with tarfile.open(packed) as tar:
                    tar.extraction_filter = getattr(tarfile, "data_filter", None)  # from Python 3.11.4
                    tar.extractall(whole)  # noqa: S202 - filtered
                (whole / ORDERED).unlink(missing_ok=True)  # what was ordered is said at home
                whole.rename(folder)
            await node.actor.drop.remote(attempt)
        return folder

    def _calls(self) -> int:
        return self._calls_before + sum(node.calls for node in self._nodes.values())

    async def _watch_head(self, head: str) -> None:
        """Look whether the head answers.

        Raises:
            ClusterError: it does not.
        """
        host, _, port = head.rpartition(":")
        failures = 0
        while failures < HEAD_LOOKS:
            await anyio.sleep(HEAD_SECONDS)
            try:
                with anyio.fail_after(HEAD_SECONDS):
                    async with await anyio.connect_tcp(host.strip("[]"), int(port)):
                        failures = 0
            except (OSError, TimeoutError):
                failures += 1
        self._fail(f"the head of the Ray cluster at {head} does not answer any more")


async def _begun(actor: Any, message: BaseModel) -> tuple[str, bytes]:
    """Send a message but for its last piece; return its name and that piece."""
    name, data = secrets.token_hex(8), message.model_dump_json().encode()
    while len(data) > PIECE_BYTES:
        await actor.receive.remote(name, data[:PIECE_BYTES])
        data = data[PIECE_BYTES:]
    return name, data


async def _send(node: Node, order: Order) -> None:
    await node.actor.send.remote(*await _begun(node.actor, order))


async def _next_report(node: Node) -> Report | None:
    """Wait for a report; None: the referee process of the node is gone."""
    line = b""
    while not line.endswith(b"\n"):
        piece = await node.actor.report.remote()
        if not piece:
            return None
        line += piece
    return Report.model_validate_json(line)


async def _end(node: Node) -> None:
    with suppress(Exception), anyio.move_on_after(END_SECONDS, shield=True):
        await node.actor.end.remote()


def _words(error: Exception) -> str:
    """Return the last line of an error of Ray, whose texts have tracebacks of other machines."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


if __name__ == "__main__":
    main()
