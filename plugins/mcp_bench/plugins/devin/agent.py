"""Cognition's Devin CLI, by `devin --print`.

Written from its documentation (https://docs.devin.ai/cli), and never run: without an account it does not
work. The tests run a stand-in with the documented interface.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mcp_bench.plugins.contracts import (
    AgentOutput,
    Capabilities,
    Fault,
    Installation,
    Launch,
    LaunchRequest,
    McpServer,
    Transcript,
)
from mcp_bench.plugins.devin.login import FILE, lend_login
from mcp_bench.plugins.devin.session import exported, read_session
from mcp_bench.plugins.executable import find_executable
from mcp_bench.plugins.json_lines import tail
from mcp_bench.plugins.mcp_config import mcp_servers
from mcp_bench.plugins.needs import Needs
from mcp_bench.plugins.turns import final_answer
from mcp_bench.servers.errors import WrongUseError

BUILTIN = ("Read(**)", "Write(**)", "Exec(*)", "Fetch(*)")
"""Rules for what it can do by itself. A denied tool is still offered to the model."""


class Devin:
    name = "devin"
    summary = "Cognition's Devin CLI (written from its documentation, not tried)."
    capabilities = Capabilities(
        builtin_tools_off=False, reports_usage=True, reports_reasoning=True, http=True
    )
    needs = Needs(login_files=(FILE,), log_in="devin auth login", own_endpoint=False)
    options: Mapping[str, str] = {}

    def find(self, environ: Mapping[str, str]) -> Installation:
        return find_executable("devin", environ, "see https://docs.devin.ai/cli")

    def prepare(self, request: LaunchRequest) -> Launch:
        """Raises:
        LoginMissingError: nobody is logged in.
        WrongUseError: an endpoint is named: it uses its makers' own.
        """
        if request.base_url:
            raise WrongUseError("devin asks its makers' models only: leave out --base-url")
        lent = lend_login(request)
        config = request.home / "devin.json"
        config.write_text(json.dumps(configuration(request)), encoding="utf-8")
        prompt = request.home / "prompt.md"
        prompt.write_text(request.prompt, encoding="utf-8")
        argv = [
            "--print",
            f"--prompt-file={prompt}",
            f"--config={config}",
            f"--export={exported(request.home)}",
        ]
        argv.append(f"--permission-mode={'normal' if request.tools == 'mcp-only' else 'dangerous'}")
        argv += [f"--model={request.model}"] if request.model else []
        return Launch((request.installation.executable, *argv), login=lent)

    def read(self, output: AgentOutput, server: McpServer) -> Transcript:
        session = read_session(output.home, server)
        messages = session.turns.messages()
        return Transcript(
            messages=messages,
            answer=final_answer(messages),
            usage=session.usage,
            model=session.model,
            fault=fault(bool(messages), tail(output.stderr)),
        )


def configuration(request: LaunchRequest) -> dict[str, Any]:
    rules = {"allow": [f"mcp__{request.server.name}__*"]}
    if request.tools == "mcp-only":
        rules["deny"] = list(BUILTIN)
    return {**mcp_servers(request.server), "permissions": rules, "read_config_from": {}}


def fault(said_something: bool, stderr: str) -> Fault | None:
    """Say whether something outside the agent failed, as far as its standard error lets that be told."""
    if said_something:
        return None
    if "auth login" in stderr or "not logged in" in stderr.lower():
        return Fault(kind="login_missing", detail=stderr)
    return Fault(kind="bad_option", detail=stderr) if "config" in stderr else None
