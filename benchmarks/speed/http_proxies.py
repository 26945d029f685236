"""Measure the cost of proxies for streamable HTTP servers: ours with recording, and other projects'.

Run it with `.venv/bin/python benchmarks/speed/http_proxies.py`. The same SDK client calls the same SDK server
(`echo_server.py`, 200 bytes each way) directly and through each proxy, with SSE and with JSON answers.
Sessions stay open and take turns of a few calls each. mcp-proxy only supports stdio servers, so its row
uses a different server.
"""

import http.client
import json
import os
import secrets
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import peers
from load import (
    ECHO,
    TEXT,
    added,
    call,
    calls_per_second,
    cpu_ms,
    descendants,
    is_server,
    machine,
    median_of,
    table,
)
from mcp import Client

from mcp_bench.bridge.http.token import VARIABLE

CALLS = 20  # some peers take 0.1 s per call
SESSIONS = 16
MODES = {"SSE": "http", "JSON": "http-json"}
"""The echo server's mode for each kind of answers."""
OURS = "mcp-bench proxy, recording"
TOKEN = secrets.token_urlsafe(32)
ACCEPT = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


@dataclass
class Endpoint:
    """A URL to call, the processes between it and the server, and the measurements."""

    port: int
    between: set[int]
    path: str = "/mcp"
    rounds: list[list[float]] = field(default_factory=list)
    raw_rounds: list[list[float]] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{self.path}"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def listening(command: Sequence[str], port: int, home: Path) -> Iterator[Endpoint]:
    """Start a server or proxy and wait until it listens.

    Raises:
        SystemExit: it does not listen within 30 s.
    """
    with (home / "stderr.log").open("a") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, "MCP_BENCH_HOME": str(home), VARIABLE: TOKEN},
        )
        try:
            for _ in range(600):
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.05)
            else:
                raise SystemExit(f"{command[0]} does not listen: {(home / 'stderr.log').read_text()[-2000:]}")
            started = {process.pid, *descendants(process.pid)}
            yield Endpoint(port, {pid for pid in started if not is_server(pid)})
        finally:
            process.terminate()
            try:
                process.wait(timeout=15)
            finally:
                process.kill()


class RawClient:
    """A session without an SDK, over one keep-alive connection."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._path = endpoint.path
        self._connection = http.client.HTTPConnection("127.0.0.1", endpoint.port, timeout=30)
        self._headers = dict(ACCEPT)
        opening = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "raw", "version": "1"},
        }
        response = self._post({"id": 0, "method": "initialize", "params": opening})
        if session := response.getheader("Mcp-Session-Id"):
            self._headers["Mcp-Session-Id"] = session
        self._headers["MCP-Protocol-Version"] = "2025-11-25"
        self._post({"method": "notifications/initialized"})

    def _post(self, message: dict[str, object]) -> http.client.HTTPResponse:
        self._connection.request("POST", self._path, json.dumps({"jsonrpc": "2.0", **message}), self._headers)
        response = self._connection.getresponse()
        body = response.read()
        if response.status >= 300 or b'"error"' in body:
            raise SystemExit(f"status {response.status}: {body[:500]!r}")
        return response

    def call(self, count: int) -> list[float]:
        """Make a warm-up call and `count` sequential calls; return the milliseconds of each."""
        self._connection.close()  # servers close idle connections; the next request opens a new one
        times = []
        params = {"name": "echo", "arguments": {"text": TEXT}}
        for number in range(count + 1):
            start = time.perf_counter()
            self._post({"id": number, "method": "tools/call", "params": params})
            times.append((time.perf_counter() - start) * 1000)
        return times[1:]


async def measure(endpoints: dict[str, Endpoint], rounds: int) -> None:
    """Measure all endpoints in turns, with each kind of load."""
    async with AsyncExitStack() as stack:
        clients = {
            name: [
                await stack.enter_async_context(Client(endpoint.url, mode="legacy")) for _ in range(SESSIONS)
            ]
            for name, endpoint in endpoints.items()
        }
        raw = {name: RawClient(endpoint) for name, endpoint in endpoints.items()}
        for name in endpoints:
            await call(clients[name][0], 10)
            raw[name].call(10)
        for _ in range(rounds):
            for name, endpoint in endpoints.items():
                before = cpu_ms(endpoint.between)
                endpoint.rounds.append(await call(clients[name][0], CALLS))
                endpoint.cpu.append((cpu_ms(endpoint.between) - before) / CALLS)
                endpoint.raw_rounds.append(raw[name].call(CALLS))
        for _ in range(max(3, rounds // 3)):
            for name, endpoint in endpoints.items():
                endpoint.rates.append(await calls_per_second(clients[name], CALLS // 2))


def show(endpoints: dict[str, Endpoint], answers: str, rounds: int) -> dict[str, float]:
    """Print what each proxy adds to a call; return the added milliseconds."""
    direct = endpoints["direct"]
    rows = []
    for name, found in endpoints.items():
        shares = [rate / bare for rate, bare in zip(found.rates, direct.rates, strict=True)]
        rows.append(
            [
                name,
                f"{median_of(found.rounds):.2f}",
                f"{median_of(found.rounds) / median_of(direct.rounds):.2f}",
                f"{added(found.rounds, direct.rounds):+.2f}",
                f"{statistics.median(found.cpu):.2f}",
                f"{added(found.raw_rounds, direct.raw_rounds):+.2f}",
                f"{statistics.median(found.rates):.0f}",
                f"{statistics.median(shares):.0%}",
            ]
        )
    print(f"\n{answers} answers, medians of {rounds} interleaved rounds of {CALLS} calls:\n")
    heads = [
        *("", "ms per call", "ratio", "added, ms", "CPU between, ms per call"),
        *("added, ms, raw client", f"calls/s, {SESSIONS} sessions", "of direct"),
    ]
    print(table(heads, rows))
    return {name: added(found.rounds, direct.rounds) for name, found in endpoints.items()}


def compare(answers: str, mode: str, rounds: int, envs: Path | None) -> dict[str, float]:
    """Measure and show the proxies, with those of the peers if their environments are given."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        home, port = Path(name), free_port()
        server = stack.enter_context(listening([sys.executable, ECHO, mode, str(port)], port, home))
        server.between = set()
        proxies: dict[str, Callable[[str, int], list[str]]] = {OURS: our_proxy}
        if envs is not None:
            proxies["fastmcp"] = lambda url, port: peers.fastmcp_http(url, port, envs)
            proxies["mcp-proxy, stdio server"] = lambda _, port: peers.mcp_proxy_http(
                [sys.executable, ECHO, "sdk"], port, envs
            )
        endpoints = {"direct": server}
        for title, command in proxies.items():
            port = free_port()
            endpoints[title] = stack.enter_context(listening(command(server.url, port), port, home))
        endpoints[OURS].path = f"/{TOKEN}/mcp"
        anyio.run(measure, endpoints, rounds)
        return show(endpoints, answers, rounds)


def main() -> None:
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--envs", type=Path, default=peers.ENVS, help="folder with the peers' environments")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", choices=["SSE", "JSON"], help="print only this table")
    parser.add_argument("--no-peers", action="store_true", help="measure only mcp-bench")
    options = parser.parse_args()
    print(machine())
    for answers, mode in MODES.items():
        if options.only in (None, answers):
            compare(answers, mode, options.rounds, None if options.no_peers else options.envs)


def our_proxy(url: str, port: int) -> list[str]:
    return [sys.executable, "-m", "mcp_bench.bridge.cli.root", "proxy", "--http", str(port), url]


if __name__ == "__main__":
    main()
