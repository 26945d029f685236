"""The shipped solution of a task as tool calls: the oracle plays them in the sandbox."""

from __future__ import annotations

import shlex
from base64 import b64encode
from typing import Any

import yaml

from mcp_bench.servers.contracts import Reference, ToolCall
from mcp_bench.servers.errors import WrongUseError
from mcp_bench.servers.harbor.folder import TaskFolder, words_of
from mcp_bench.servers.worlds.shell_world import BASH, MOST_SECONDS, WRITE_FILE
from mcp_bench.servers.yaml_file import load_yaml

PLACE = "/solution"
"""Where Harbor's oracle has the solution."""
TYPED = "solution.yaml"


def solution_calls(task: TaskFolder) -> Reference | None:
    """Return the calls that solve a task, or None: it has no solution.

    Raises:
        WrongUseError: the solution cannot be read.
    """
    files = task.solution
    if TYPED in files:
        try:
            return Reference(calls=tuple(_typed(files[TYPED])))
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            raise WrongUseError(f"{task.path / TYPED} cannot be read: {error}") from error
    script = next((name for name in ("solve.sh", "solution.sh") if name in files), None)
    if script is None:
        return None
    calls = [_put(f"{PLACE}/{name}", data) for name, data in files.items()]
    env = words_of(task.section("solution").get("env"))
    words = "".join(f"{name}={shlex.quote(value)} " for name, value in env.items())
    return Reference(calls=(*calls, _bash(f"{words}bash {PLACE}/{shlex.quote(script)}")))


def _put(path: str, data: bytes) -> ToolCall:
    try:
        return ToolCall(name=WRITE_FILE.name, arguments={"path": path, "text": data.decode()})
    except UnicodeDecodeError:
        folder, text = path.rpartition("/")[0], b64encode(data).decode()
        return _bash(f"mkdir -p {shlex.quote(folder)} && base64 -d >{shlex.quote(path)} <<'X'\n{text}\nX")


def _typed(data: bytes) -> list[ToolCall]:
    """Return the commands of a solution.yaml, which was typed into a terminal."""
    rows: Any = load_yaml(data)
    commands = [str(row["command"]) for row in rows or [] if isinstance(row, dict) and row.get("command")]
    return [_bash(command) for command in commands]


def _bash(command: str) -> ToolCall:
    return ToolCall(name=BASH.name, arguments={"command": command, "seconds": MOST_SECONDS})
