"""The desk server on streamable HTTP, for one attempt."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from tests.support import DESK_SERVER
from tests.support.agents.agent_attempt import Attempt
from tests.support.processes.forked import script_command


@contextmanager
def desk_on_http() -> Iterator[str]:
    """Yield the URL of a desk server."""
    pipe = subprocess.PIPE
    with subprocess.Popen(script_command(DESK_SERVER, "--http"), stdout=pipe, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/mcp"
        finally:
            process.kill()


@contextmanager
def over_http(work: Attempt) -> Iterator[None]:
    """Give the attempt its server by URL instead of by a command."""
    environ = {**os.environ, "JOURNAL": str(work.journal_path)}
    command = script_command(DESK_SERVER, "--http")
    pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(command, env=environ, stdout=pipe, stderr=nowhere, text=True) as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            work.server = replace(work.server, command=(), url=f"http://127.0.0.1:{port}/mcp")
            yield
        finally:
            process.kill()
