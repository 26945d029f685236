"""A model as an agent: the arguments of `mcp-bench record`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from mcp_bench.servers.errors import WrongUseError
from mcp_bench.trainer.serving import serve
from mcp_bench.trainer.serving.server import claim_port


def tasks(benchmark: str, ids: Sequence[str], jobs: int) -> list[str]:
    """Return the arguments that name tasks."""
    named = [word for task in ids for word in ("--task", task)]
    return ["--benchmark", benchmark, *named, "--jobs", str(jobs)]


def model_name(text: str) -> str:
    """Return a name for a model in the recordings that every server takes."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._")


@contextmanager
def served(
    model: Path, name: str, port_file: Path, engine: str, max_tokens: int | None
) -> Iterator[list[str]]:
    """Serve a model; yield the arguments that reach it by its `name`.

    The port is kept in a file: a recording that goes on after a stop finds its model where it was.

    Raises:
        WrongUseError: that port is taken.
        BenchError: the engine ended, or answered no more, before we were done: what was recorded is not the
            model's work.
    """
    with serve(model, engine=engine, port=_port(port_file), model_name=name) as server:
        port_file.write_text(server.base_url.rpartition(":")[2].partition("/")[0])
        option = ["--agent-option", f"max_tokens={max_tokens}"] if max_tokens else []
        yield ["--agent", "chat", "--base-url", server.base_url, "--model", name, *option]
        server.check()
    port_file.unlink()


def _port(file: Path) -> int:
    """Return the port that a recording was begun at; 0, any, where none was."""
    if not file.is_file():
        return 0
    port = int(file.read_text())
    try:
        return claim_port("127.0.0.1", port)
    except WrongUseError as error:
        raise WrongUseError(
            f"port {port}, where a recording that was begun has its model, is taken: free it and go on, or "
            f"begin the recording again: rm {file} {file.parent}/*.begun"
        ) from error
