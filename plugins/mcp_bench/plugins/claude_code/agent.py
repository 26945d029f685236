"""Anthropic's Claude Code, by `claude --print`.

Written for 2.1.329, which needs Node.js 22. Its options: https://code.claude.com/docs/en/cli-reference
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from mcp_bench.plugins.claude_code.session import ClaudeSession, model_names, read_session, session_id
from mcp_bench.plugins.cli_agent import MCP_CONFIG, CliAgent, whole_number
from mcp_bench.plugins.contracts import (
    AgentOutput,
    Capabilities,
    Fault,
    Launch,
    LaunchRequest,
    LentLogin,
    McpServer,
)
from mcp_bench.plugins.needs import PLACEHOLDER, LoginFile, Needs
from mcp_bench.plugins.output import endpoint_fault, not_approved, not_connected
from mcp_bench.plugins.text_files import json_lines

KEY = "ANTHROPIC_API_KEY"
TOKEN = "CLAUDE_CODE_OAUTH_TOKEN"  # noqa: S105 - a variable's name
URL = "ANTHROPIC_BASE_URL"
LOGIN_FOLDER = "CLAUDE_SECURESTORAGE_CONFIG_DIR"
"""Names the folder of the login only: a private CLAUDE_CONFIG_DIR works with the user's own login."""
FILE = LoginFile(".credentials.json", ".claude", "claude auth login", (LOGIN_FOLDER, "CLAUDE_CONFIG_DIR"))
"""Claude Code renews it by renaming a new file over it. That would replace a link, so the file is used in its
place. Locks in the same folder let one process renew it for all: of four at once, one did."""

FIXED = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_TELEMETRY": "1",
    "ENABLE_TOOL_SEARCH": "false",  # else MCP tools can be missing until the model searches for them
    "MCP_CONNECTION_NONBLOCKING": "0",  # else the first request can go out before the tools are listed
    "MCP_TIMEOUT": "60000",
    "MCP_TOOL_TIMEOUT": "3600000",
}
"""Times in milliseconds."""

BUILTIN = ("Bash", "Edit", "NotebookEdit", "Read", "Task", "Write")
"""Its own tools that need permission; those that only look need none."""
WEB = ("WebFetch", "WebSearch")
OWN_FAILURE = "max_output_tokens"
"""The `api_error` of a session whose model reached its limit of tokens, in one answer or in all."""


class ClaudeCode(CliAgent[ClaudeSession]):
    name = "claude-code"
    summary = "Anthropic's Claude Code."
    program = "claude"
    install = "npm install -g @anthropic-ai/claude-code"
    capabilities = Capabilities(
        reports_usage=True,
        reports_cost=True,
        reports_reasoning=True,
        http=True,
        native=True,
        system=True,
        inside=True,
    )
    needs = Needs(
        tested="2.1.329",
        login=(KEY, TOKEN),
        bound=(TOKEN,),
        login_files=(FILE,),
        log_in="claude auth login",
        endpoint="https://api.anthropic.com",
        endpoint_variables=(URL,),
        api="anthropic-messages",
    )
    options: Mapping[str, str] = {
        "effort": "effort level (low, medium, high, ...)",
        "max_retries": "attempts again on failed model requests (default 10)",
    }

    def configuration_variables(self, request: LaunchRequest) -> dict[str, str]:
        env = dict(FIXED) if request.native else {**FIXED, "CLAUDE_CONFIG_DIR": str(request.home / ".claude")}
        if (retries := whole_number(request.options, "max_retries")) is not None:
            env["CLAUDE_CODE_MAX_RETRIES"] = str(retries)
        return env

    def use_endpoint(self, request: LaunchRequest, url: str) -> dict[str, str]:
        env = {URL: url, KEY: request.environ.get(KEY) or PLACEHOLDER}
        if request.model:  # for side work it would otherwise ask for a model that the endpoint may lack
            env["ANTHROPIC_DEFAULT_HAIKU_MODEL"] = request.model
        return env

    def lend_login(self, request: LaunchRequest) -> tuple[dict[str, str], LentLogin]:
        if not FILE.is_there(request.environ):
            raise self.needs.login_missing(self.name, request.environ, self.needs.login)
        return {LOGIN_FOLDER: str(FILE.at(request.environ).parent)}, FILE.lent(request.environ)

    def setup(self, request: LaunchRequest, env: Mapping[str, str]) -> None:
        super().setup(request, env)
        if request.system:
            system_path(request).write_text(request.system, encoding="utf-8")

    def arguments(self, request: LaunchRequest) -> list[str]:
        server = request.server
        allowed = list(model_names(server)) or [f"mcp__{server.name}"]  # the server's name stands for all
        argv = ["--print", "--output-format=stream-json", "--verbose"]
        argv += [f"--mcp-config={request.home / MCP_CONFIG}"]
        if not request.native:
            argv += ["--strict-mcp-config", "--setting-sources="]
        if request.system:  # its settings, and CLAUDE.md with them, are switched off
            argv.append(f"--append-system-prompt-file={system_path(request)}")
        argv += ["--permission-mode=dontAsk"]  # deny what is not allowed, without asking
        if request.tools == "mcp-only":
            argv += ["--tools="] if request.native else ["--tools=", "--disable-slash-commands"]
        else:
            allowed += BUILTIN
            argv.append(f"--disallowedTools={','.join(WEB)}")
        argv.append(f"--allowedTools={','.join(allowed)}")
        argv += [f"--model={request.model}"] if request.model else []
        argv += [f"--effort={effort}"] if (effort := request.options.get("effort")) else []
        return argv

    def stdin(self, request: LaunchRequest) -> bytes:
        return message(request.prompt)

    def resume(self, launch: Launch, said: str, output: AgentOutput) -> Launch | None:
        """Return `claude --resume`, with the options of the first launch."""
        if (session := session_id(json_lines(output.stdout))) is None:
            return None
        return replace(launch, argv=(*launch.argv, f"--resume={session}"), stdin=message(said))

    def read_session(self, output: AgentOutput, server: McpServer) -> ClaudeSession:
        return read_session(output.stdout, output.files(".claude", "CLAUDE_CONFIG_DIR"), server)

    def fault(self, session: ClaudeSession, output: AgentOutput, server: McpServer) -> Fault | None:
        """Return what failed outside the agent. It ends with code 0 and a friendly sentence either way."""
        if failed := not_connected(session.servers, server):
            return failed
        result: Mapping[str, Any] = session.result or {}
        if result.get("terminal_reason") == "api_error":
            if result.get("stop_reason") == "refusal" or result.get("api_error") == OWN_FAILURE:
                return None
            detail = str(result.get("result"))
            login = "/login" in detail
            return Fault(kind="login_missing", detail=detail) if login else endpoint_fault(detail)
        if session.denied:
            return not_approved(session.denied)
        if not result and session.retrying:
            return Fault(kind="endpoint_error", detail=f"ended while it tried again: {session.retrying}")
        return None


def system_path(request: LaunchRequest) -> Path:
    return request.home / "system.md"


def message(text: str) -> bytes:
    """Return a message of the user. One that begins with a slash would be taken for a command."""
    return (f"\n{text}" if text.startswith("/") else text).encode()
