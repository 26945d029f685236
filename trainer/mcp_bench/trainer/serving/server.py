"""Start an engine for a checkpoint, wait until it answers, and stop it."""

from __future__ import annotations

import http.client
import json
import os
import re
import secrets
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from tempfile import mkdtemp

from mcp_bench.servers.errors import BenchError, WrongUseError
from mcp_bench.servers.home import home
from mcp_bench.servers.terminal.sanitize import sanitize
from mcp_bench.trainer.bases import located
from mcp_bench.trainer.serving import llama_cpp
from mcp_bench.trainer.serving.adapter import merge_adapter
from mcp_bench.trainer.serving.checkpoint import is_adapter, read_checkpoint
from mcp_bench.trainer.serving.engines import Capacity, Listening, command, environment, find_engine
from mcp_bench.trainer.serving.families import Parsers, choose_parsers, with_tools
from mcp_bench.trainer.serving.require_key import VARIABLE
from mcp_bench.trainer.serving_defaults import CLIENT_KEY, LLAMA_CPP, START_SECONDS
from mcp_bench.trainer.supervised_process import SupervisedProcess

POLL_SECONDS = 0.2
ASK_SECONDS = 5.0
CHECK_SECONDS = 60.0
"""Time for a busy engine to answer: it can still be generating abandoned answers."""
LAST_LINES = 20
KEY = re.compile(r"[!-~]+")
"""What a header can have as a key: ASCII without blanks, which its readers cut off."""
MODEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*")


@dataclass(frozen=True)
class Server:
    """A running server."""

    base_url: str
    """The base URL for OpenAI clients, which ends in /v1."""
    key: str = field(repr=False)
    """What every request must show, as `Authorization: Bearer KEY`."""
    model: str
    engine: str
    log: Path
    process: SupervisedProcess

    @property
    def env(self) -> dict[str, str]:
        """The variable with the key, for `mcp_bench.api.record(..., env=server.env)`."""
        return {CLIENT_KEY: self.key}

    @property
    def pid(self) -> int:
        return self.process.pid

    def wait(self, seconds: float) -> None:
        """Wait for `seconds`.

        Raises:
            BenchError: the engine has ended; the text has the last lines of its log.
        """
        code = self.process.wait(seconds)
        if code is not None:
            raise BenchError(f"{self.engine} ended with exit code {code}{last_lines(self.log)}")

    def check(self) -> None:
        """Check that the engine still answers.

        Raises:
            BenchError: it has ended or does not answer; the text has the last lines of its log.
        """
        deadline = time.monotonic() + CHECK_SECONDS
        while not _lists_model(self):
            self.wait(POLL_SECONDS)
            if time.monotonic() > deadline:
                raise BenchError(f"{self.engine} stopped answering{last_lines(self.log)}")


@contextmanager
def serve(
    checkpoint: str | Path,
    *,
    engine: str = "auto",
    vllm: str | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
    model_name: str | None = None,
    tensor_parallel: int | None = None,
    data_parallel: int | None = None,
    max_model_len: int | None = None,
    tool_call_parser: str | None = None,
    reasoning_parser: str | None = None,
    device: str | None = None,
    dtype: str | None = None,
    constrain_calls: bool = False,
    extra: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
    start_timeout: float = START_SECONDS,
    on_wait: Callable[[str, float], None] | None = None,
) -> Iterator[Server]:
    """Serve a model, or a LoRA adapter after merging it, and stop the server on exit.

    Args:
        checkpoint: folder of the model or adapter, name of a fetched base, or a GGUF file.
        engine: auto, vllm, torch (our own) or llama.cpp (GGUF files).
        vllm: vLLM's environment or executable.
        host: address to listen on.
        port: port to listen on; 0 picks a free one.
        model_name: model name for clients. Default: the folder's name.
        tensor_parallel: GPUs to split each layer over.
        data_parallel: copies of the model.
        max_model_len: maximum tokens of a conversation.
        tool_call_parser: parser for tool calls. Default: by model family.
        reasoning_parser: parser for reasoning, or none. Default: by model family.
        device: cpu or cuda, for the torch engine. Default: cuda if there is one.
        dtype: float32, bfloat16 or float16. Default: the checkpoint's, as far as the device computes with it.
        constrain_calls: hold all tool calls to the tools' schemas (torch engine).
        extra: further arguments of the engine.
        variables: variables of the engine, besides this process's own.
        start_timeout: seconds to wait for the first answer.
        on_wait: called with engine name and seconds passed while the engine starts.

    Raises:
        WrongUseError: the checkpoint cannot be served, the port is in use, or the key is none.
        MissingDependencyError: the engine is not installed.
        BenchError: the engine ended during start-up or did not answer within `start_timeout`.
    """
    checkpoint = Path(located(str(checkpoint)))
    if constrain_calls and engine == "auto" and vllm is None and checkpoint.suffix != llama_cpp.SUFFIX:
        engine = "torch"  # the only one that can
    found = find_engine(llama_cpp.engine_for(checkpoint, engine), vllm, os.environ)
    name = model_name or checkpoint.resolve().name.removesuffix(llama_cpp.SUFFIX)
    if not MODEL_NAME.fullmatch(name):
        raise WrongUseError(
            f"invalid model name {name!r}: give one (model_name) of letters, digits, '.', '_', '-' and '/'"
        )
    key = os.environ.get(VARIABLE) or secrets.token_urlsafe(32)
    if not KEY.fullmatch(key):
        raise WrongUseError(f"{VARIABLE}: a key has ASCII letters, digits and signs only, and no blanks")
    listening = Listening(host, claim_port(host, port), name)
    if found.name == LLAMA_CPP:  # it finds the form of calls in the template itself
        if vllm is not None or tool_call_parser is not None or reasoning_parser is not None:
            raise WrongUseError(
                "vllm, tool_call_parser and reasoning_parser do not go with a GGUF file: llama.cpp reads the "
                "template itself"
            )
        loaded, parsers = llama_cpp.read_file(checkpoint), Parsers("", None)
    else:
        loaded = with_tools(
            read_checkpoint(merge_adapter(checkpoint) if is_adapter(checkpoint) else checkpoint)
        )
        parsers = choose_parsers(loaded, tool_call_parser, reasoning_parser)
    capacity = Capacity(tensor_parallel, data_parallel, max_model_len, device, dtype, constrain_calls)
    argv = command(found, loaded, listening, parsers, capacity, tuple(extra))
    folder = _folder()
    if not loaded.own_template:
        template = folder / "chat_template.jinja"
        template.write_text(loaded.chat_template, encoding="utf-8")
        argv += ["--chat-template", str(template)]
    log = folder / "engine.log"
    with log.open("ab") as output:
        modules = folder / "modules"
        modules.mkdir()
        environ = environment(found, loaded, os.environ | dict(variables or {}), key, modules)
        process = SupervisedProcess(argv, environ, folder, output, output)
    try:
        server = Server(_base_url(host, listening.port), key, name, found.name, log, process)
        _await_ready(server, start_timeout, on_wait)
        yield server
    finally:
        process.stop()


def claim_port(host: str, port: int) -> int:
    """Return the port after checking that it is free; 0 picks a free one.

    Raises:
        WrongUseError: the port is in use, or the address does not exist here.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, socket.SOCK_STREAM) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(1)  # with SO_REUSEADDR, only this fails if another process listens
            return int(listener.getsockname()[1])
    except OSError as error:
        raise WrongUseError(
            f"cannot listen on {host} port {port}: {error.strerror or error}. Port 0 picks a free one"
        ) from error


def last_lines(log: Path) -> str:
    """Return the last lines of a log, sanitized, as a suffix for an error message."""
    lines = log.read_text(errors="replace").strip().splitlines()[-LAST_LINES:]
    shown = "\n".join(f"  {line}" for line in lines) or "  (empty)"
    return sanitize(f". Last lines of {log}:\n{shown}")


def _folder() -> Path:
    """Make the engine's working folder, for its log."""
    above = home() / "serving"
    try:
        above.mkdir(parents=True, exist_ok=True)
        return Path(mkdtemp(prefix=f"{datetime.now(UTC):%Y%m%dT%H%M%S}-", dir=above))
    except OSError as error:
        raise BenchError(
            f"cannot write to {error.filename}: {error.strerror}. Set MCP_BENCH_HOME to a writable folder"
        ) from error


def _base_url(host: str, port: int) -> str:
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not bound
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/v1"


def _await_ready(server: Server, timeout: float, on_wait: Callable[[str, float], None] | None) -> None:
    started = time.monotonic()
    while not _lists_model(server):
        code = server.process.wait(POLL_SECONDS)
        if code is not None:
            raise BenchError(
                f"{server.engine} ended with exit code {code} during start-up{last_lines(server.log)}"
            )
        passed = time.monotonic() - started
        if passed > timeout:
            raise BenchError(
                f"{server.engine} did not answer within {timeout:g} seconds (start_timeout)"
                f"{last_lines(server.log)}"
            )
        if on_wait is not None:
            on_wait(server.engine, passed)


def _lists_model(server: Server) -> bool:
    """Return whether the endpoint answers and lists this model. Another server on the port would not."""
    where = server.base_url.removeprefix("http://").removesuffix("/v1")
    connection = http.client.HTTPConnection(where, timeout=ASK_SECONDS)
    try:
        connection.request("GET", "/v1/models", headers={"Authorization": f"Bearer {server.key}"})
        listed = json.loads(connection.getresponse().read())["data"]
        return any(entry["id"] == server.model for entry in listed)
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        return False
    finally:
        connection.close()
