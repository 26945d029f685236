"""Serve a model and build the arguments of `mcp-bench record` that measure it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from mcp_bench.bridge.roles.models import keep_role_keys
from mcp_bench.recorder.atomic_file import write_atomic
from mcp_bench.servers.errors import WrongUseError
from mcp_bench.trainer.serving import serve
from mcp_bench.trainer.serving.server import claim_port
from mcp_bench.trainer.serving_defaults import CLIENT_KEY
from mcp_bench.trainer.trial.commands import with_variables
from mcp_bench.trainer.trial.settings import TrialSettings

LOOPBACK = "127.0.0.1"
START_SECONDS = 1800.0
"""A large model loads for many minutes, and nobody is there to choose a longer time."""


def tasks(benchmark: str, ids: Sequence[str], jobs: int) -> list[str]:
    """Return the arguments that select tasks."""
    named = [word for task in ids for word in ("--task", task)]
    return ["--benchmark", benchmark, *named, "--jobs", str(jobs)]


def model_name(text: str) -> str:
    """Return a model name that every server accepts; `model` for a text without Latin letters or digits."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._") or "model"


class Endpoint(list[str]):
    """The arguments of `mcp-bench record` that select a served model."""

    def __init__(self, arguments: Sequence[str], check: Callable[[], None]) -> None:
        """Keep the arguments.

        Args:
            arguments: of `record`.
            check: raises BenchError if the engine does not answer any more. `served` calls it at its end: a
                result that is stored before that has to be checked before.
        """
        super().__init__(arguments)
        self.check = check


@contextmanager
def served(
    model: Path, name: str, port_file: Path, settings: TrialSettings, host: str = LOOPBACK
) -> Iterator[Endpoint]:
    """Serve a model as `name`, at an address of this machine, and yield the arguments that select it.

    The port is stored in `port_file`, so that a resumed recording finds its model at the same address. The
    file stays: the caller can be killed before it has stored the result.

    Raises:
        WrongUseError: the stored port is in use.
        BenchError: the engine ended or stopped answering, so the recording does not measure the model.
    """
    with serve(
        model,
        engine=settings.engine,
        host=host,
        port=_port(port_file, host),
        model_name=name,
        constrain_calls=settings.constrain_calls,
        start_timeout=START_SECONDS,
    ) as server:
        write_atomic(port_file, server.base_url.rpartition(":")[2].partition("/")[0])
        most = settings.max_tokens
        option = ["--agent-option", f"max_tokens={most}"] if most else []
        keep_role_keys(os.environ)
        with with_variables({CLIENT_KEY: server.key}):  # a command line would show it
            named = ["--agent", "chat", "--base-url", server.base_url, "--model", name, *option]
            yield Endpoint(named, server.check)
        server.check()


def _port(file: Path, host: str) -> int:
    """Return the port of a recording in progress, or 0 (any port) for a new one."""
    if not file.is_file():
        return 0
    port = int(file.read_text())
    try:
        return claim_port(host, port)
    except WrongUseError as error:
        raise WrongUseError(
            f"cannot resume the recording: its model's port {port} is in use. Free the port and resume, or "
            f"restart the recording: rm {file} {file.parent}/*.begun"
        ) from error
