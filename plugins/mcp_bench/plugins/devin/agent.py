"""Cognition's Devin CLI, by `devin --print`.

Written from its documentation (https://docs.devin.ai/cli), and never run: it needs an account. The tests run
a stand-in with the documented interface.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mcp_bench.plugins.cli_agent import CliAgent, mcp_servers
from mcp_bench.plugins.contracts import (
    AgentOutput,
    Capabilities,
    Fault,
    LaunchRequest,
    McpServer,
)
from mcp_bench.plugins.devin.session import exported, read_session
from mcp_bench.plugins.needs import LoginFile, Needs
from mcp_bench.plugins.output import Session
from mcp_bench.plugins.text_files import tail

FILE = LoginFile(
    "credentials.toml",
    ".local/share/devin",
    "devin auth login",
    alone="nobody has seen yet what Devin does when two of them renew it",
)
"""The only login: there is no variable for it. From its documentation
(https://docs.devin.ai/cli/enterprise/devin-auth), not tried."""
CREDENTIALS = Path(FILE.folder, FILE.name)
"""Relative to HOME."""

BUILTIN = ("Read(**)", "Write(**)", "Exec(*)", "Fetch(*)")
"""Rules for its own tools. A denied tool is still offered to the model."""


class Devin(CliAgent[Session]):
    name = "devin"
    summary = "Cognition's Devin CLI (written from its documentation, not tried)."
    program = "devin"
    install = "the instructions at https://docs.devin.ai/cli"
    capabilities = Capabilities(
        builtin_tools_off=False, reports_usage=True, reports_reasoning=True, http=True
    )
    needs = Needs(login_files=(FILE,), log_in="devin auth login", own_endpoint=False)

    def setup(self, request: LaunchRequest, env: Mapping[str, str]) -> None:
        config_path(request).write_text(json.dumps(configuration(request)), encoding="utf-8")
        prompt_path(request).write_text(request.prompt, encoding="utf-8")

    def arguments(self, request: LaunchRequest) -> list[str]:
        argv = ["--print", f"--prompt-file={prompt_path(request)}", f"--config={config_path(request)}"]
        argv.append(f"--export={exported(request.home)}")
        argv.append(f"--permission-mode={'normal' if request.tools == 'mcp-only' else 'dangerous'}")
        argv += [f"--model={request.model}"] if request.model else []
        return argv

    def stdin(self, request: LaunchRequest) -> bytes:
        return b""

    def read_session(self, output: AgentOutput, server: McpServer) -> Session:
        return read_session(output.private, server)

    def fault(self, session: Session, output: AgentOutput, server: McpServer) -> Fault | None:
        """Return what failed outside the agent, as far as its standard error shows it."""
        if session.turns.messages():
            return None
        stderr = tail(output.stderr)
        if "auth login" in stderr or "not logged in" in stderr.lower():
            return Fault(kind="login_missing", detail=stderr)
        return Fault(kind="bad_option", detail=stderr) if "config" in stderr else None


def config_path(request: LaunchRequest) -> Path:
    return request.home / "devin.json"


def prompt_path(request: LaunchRequest) -> Path:
    return request.home / "prompt.md"


def configuration(request: LaunchRequest) -> dict[str, Any]:
    rules = {"allow": [f"mcp__{request.server.name}__*"]}
    if request.tools == "mcp-only":
        rules["deny"] = list(BUILTIN)
    return {**mcp_servers(request.server), "permissions": rules, "read_config_from": {}}
