"""From a checkpoint to an endpoint that answers, and back to nothing."""

from __future__ import annotations

import http.client
import ipaddress
import json
import os
import re
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import mkdtemp

from mcp_bench.recorder.paths import home
from mcp_bench.servers.errors import BenchError, WrongUseError
from mcp_bench.servers.sanitize import sanitize
from mcp_bench.trainer.serving.adapter import merge_adapter
from mcp_bench.trainer.serving.checkpoint import is_adapter, read_checkpoint
from mcp_bench.trainer.serving.engines import Capacity, Listening, command, environment, find_engine
from mcp_bench.trainer.serving.families import choose_parsers
from mcp_bench.trainer.supervised_process import SupervisedProcess

START_SECONDS = 300.0
POLL_SECONDS = 0.2
ASK_SECONDS = 5.0
CHECK_SECONDS = 60.0
"""What is still being generated for nobody may keep an engine busy."""
LAST_LINES = 20
MODEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*")


@dataclass(frozen=True)
class Server:
    """A checkpoint that is being served."""

    base_url: str
    """As an OpenAI client wants it: it ends in /v1."""
    model: str
    engine: str
    log: Path
    process: SupervisedProcess

    @property
    def pid(self) -> int:
        return self.process.pid

    def wait(self, seconds: float) -> None:
        """Return after so long.

        Raises:
            BenchError: the engine has ended meanwhile; the text has the last lines of its log.
        """
        code = self.process.wait(seconds)
        if code is not None:
            raise BenchError(f"{self.engine} ended with exit code {code}{last_lines(self.log)}")

    def check(self) -> None:
        """Return if the engine still answers.

        Raises:
            BenchError: it has ended, or does not; the text has the last lines of its log.
        """
        deadline = time.monotonic() + CHECK_SECONDS
        while not _lists_model(self):
            self.wait(POLL_SECONDS)
            if time.monotonic() > deadline:
                raise BenchError(f"{self.engine} does not answer any more{last_lines(self.log)}")


@contextmanager
def serve(
    checkpoint: Path, *, engine: str = "auto", vllm: str | None = None, host: str = "127.0.0.1",
    port: int = 0, model_name: str | None = None, tensor_parallel: int | None = None,
    data_parallel: int | None = None, max_model_len: int | None = None, tool_call_parser: str | None = None,
    reasoning_parser: str | None = None, extra: Sequence[str] = (), start_timeout: float = START_SECONDS,
    on_wait: Callable[[str, float], None] | None = None,
) -> Iterator[Server]:  # fmt: skip
    """Serve a folder with a model, or with a LoRA adapter, which is merged first; on leaving, all is gone.

    `engine` is auto, vllm or transformers; `vllm` names vLLM's environment or executable. Port 0 is a free
    one. `on_wait` is told the engine's name and the seconds passed, while it starts.

    Raises:
        WrongUseError: the checkpoint cannot be served as it is, or the port is in use.
        MissingDependencyError: there is no such engine here.
        BenchError: the engine ended while it started, or did not answer within `start_timeout` seconds.
    """
    found = find_engine(engine, vllm, os.environ)
    name = model_name or checkpoint.resolve().name
    if not MODEL_NAME.fullmatch(name):
        raise WrongUseError(
            f"{name!r} does not do as a name for a model: give one of letters, digits, '.', '_', '-' and '/' "
            "with --model-name"
        )
    listening = Listening(host, claim_port(host, port), name)
    loaded = read_checkpoint(merge_adapter(checkpoint) if is_adapter(checkpoint) else checkpoint)
    parsers = choose_parsers(loaded, tool_call_parser, reasoning_parser)
    capacity = Capacity(tensor_parallel, data_parallel, max_model_len)
    argv = command(found, loaded, listening, parsers, capacity, tuple(extra))
    folder = _folder(name, loaded.folder)
    log = folder / "engine.log"
    with log.open("ab") as output:
        process = SupervisedProcess(argv, environment(found, loaded, os.environ), folder, output, output)
    try:
        server = Server(_base_url(host, listening.port), name, found.name, log, process)
        _await_ready(server, start_timeout, on_wait)
        yield server
    finally:
        process.stop()


def claim_port(host: str, port: int) -> int:
    """Return a port that can be listened on; 0 is a free one.

    Raises:
        WrongUseError: it is in use, or there is no such address here.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, socket.SOCK_STREAM) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(1)  # with SO_REUSEADDR, only this tells that somebody listens
            return int(listener.getsockname()[1])
    except OSError as error:
        raise WrongUseError(
            f"cannot listen on {host} port {port}: {error.strerror or error}; --port 0 takes a free one"
        ) from error


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def last_lines(log: Path) -> str:
    """Return the end of a log, made safe to show, to be put behind a sentence."""
    lines = log.read_text(errors="replace").strip().splitlines()[-LAST_LINES:]
    said = "\n".join(f"  {line}" for line in lines) or "  (nothing)"
    return sanitize(f". The end of {log}:\n{said}")


def _folder(name: str, checkpoint: Path) -> Path:
    """Make the folder that the engine runs in: its log, and a link to the checkpoint by the model's name."""
    above = home() / "serving"
    try:
        above.mkdir(parents=True, exist_ok=True)
        folder = Path(mkdtemp(prefix=f"{datetime.now(UTC):%Y%m%dT%H%M%S}-", dir=above))
        link = folder / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(checkpoint)
    except OSError as error:
        raise BenchError(
            f"cannot write to {error.filename}: {error.strerror}. Logs go to $MCP_BENCH_HOME; set it to a "
            "folder that can be written"
        ) from error
    return folder


def _base_url(host: str, port: int) -> str:
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not bound
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/v1"


def _await_ready(server: Server, timeout: float, on_wait: Callable[[str, float], None] | None) -> None:
    started = time.monotonic()
    while not _lists_model(server):
        code = server.process.wait(POLL_SECONDS)
        if code is not None:
            raise BenchError(
                f"{server.engine} ended with exit code {code} while it started{last_lines(server.log)}"
            )
        passed = time.monotonic() - started
        if passed > timeout:
            raise BenchError(
                f"{server.engine} does not answer after {timeout:.0f} seconds (--start-timeout)"
                f"{last_lines(server.log)}"
            )
        if on_wait is not None:
            on_wait(server.engine, passed)


def _lists_model(server: Server) -> bool:
    """Whether the endpoint is up and has this model: whoever else took the port would have another."""
    where = server.base_url.removeprefix("http://").removesuffix("/v1")
    connection = http.client.HTTPConnection(where, timeout=ASK_SECONDS)
    try:
        connection.request("GET", "/v1/models")
        listed = json.loads(connection.getresponse().read())["data"]
        return any(entry["id"] == server.model for entry in listed)
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        return False
    finally:
        connection.close()
