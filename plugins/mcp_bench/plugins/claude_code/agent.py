"""Anthropic's Claude Code, by `claude --print`.

Written for 2.1.329, which needs Node.js 22. Its options: https://code.claude.com/docs/en/cli-reference
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from mcp_bench.plugins.claude_code.session import Session, model_names, read_session
from mcp_bench.plugins.contracts import (
    AgentOutput,
    Capabilities,
    Fault,
    Installation,
    Launch,
    LaunchRequest,
    LentLogin,
    McpServer,
    Transcript,
)
from mcp_bench.plugins.executable import find_executable
from mcp_bench.plugins.json_lines import ODD
from mcp_bench.plugins.login import PLACEHOLDER, LoginFile, login, native_login
from mcp_bench.plugins.mcp_config import mcp_servers
from mcp_bench.plugins.needs import Needs
from mcp_bench.plugins.options import whole_number
from mcp_bench.plugins.turns import final_answer

LOGIN = ("ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN")
LOGIN_FOLDER = "CLAUDE_SECURESTORAGE_CONFIG_DIR"
"""Says where the login lies, and nothing else: a private CLAUDE_CONFIG_DIR goes with the user's own login."""
FILE = LoginFile(".credentials.json", ".claude", "claude auth login", (LOGIN_FOLDER, "CLAUDE_CONFIG_DIR"))
"""Written by way of a file beside it that takes its name: a link to it would be replaced, so it is used where
it is. Locks in the same folder have one process renew it for all: of four at once, one was seen to."""

FIXED = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_TELEMETRY": "1",
    "ENABLE_TOOL_SEARCH": "false",  # else MCP tools may be there only after a search
    "MCP_CONNECTION_NONBLOCKING": "0",  # else the first request may go out before the tools are there
    "MCP_TIMEOUT": "60000",
    "MCP_TOOL_TIMEOUT": "3600000",
}
"""Times in milliseconds."""

BUILTIN = ("Bash", "Edit", "NotebookEdit", "Read", "Task", "Write")
"""Tools of its own that need leave; those that only look need none."""
WEB = ("WebFetch", "WebSearch")


class ClaudeCode:
    name = "claude-code"
    summary = "Anthropic's Claude Code."
    capabilities = Capabilities(
        reports_usage=True, reports_cost=True, reports_reasoning=True, http=True, native=True
    )
    needs = Needs(
        tested="2.1.329",
        login=LOGIN,
        bound=("CLAUDE_CODE_OAUTH_TOKEN",),
        login_files=(FILE,),
        log_in="claude auth login",
        endpoint="https://api.anthropic.com",
        endpoint_variables=("ANTHROPIC_BASE_URL",),
    )
    options: Mapping[str, str] = {
        "effort": "effort level (low, medium, high, ...)",
        "max_retries": "attempts again on failed model requests (default 10)",
    }

    def find(self, environ: Mapping[str, str]) -> Installation:
        return find_executable("claude", environ, "npm install -g @anthropic-ai/claude-code")

    def prepare(self, request: LaunchRequest) -> Launch:
        """Raises:
        LoginMissingError: there is no login.
        WrongUseError: an option's value makes no sense.
        """
        # A prompt that begins with a slash would be taken for a command of its own.
        prompt = f"\n{request.prompt}" if request.prompt.startswith("/") else request.prompt
        env, lent = environment(request)
        argv = (request.installation.executable, *arguments(request))
        return Launch(argv, env, stdin=prompt.encode(), login=lent)

    def read(self, output: AgentOutput, server: McpServer) -> Transcript:
        session = read_session(output.stdout, output.folder(".claude", "CLAUDE_CONFIG_DIR"), server)
        messages = session.turns.messages()
        return Transcript(
            messages=messages,
            answer=final_answer(messages),
            usage=session.usage,
            model=session.model,
            fault=fault(session, server),
        )


def arguments(request: LaunchRequest) -> list[str]:
    """Write the MCP configuration into the private HOME; return the command's arguments."""
    server = request.server
    config = request.home / "mcp.json"
    config.write_text(json.dumps(mcp_servers(server)), encoding="utf-8")
    allowed = list(model_names(server)) or [f"mcp__{server.name}"]  # the server's name stands for all
    argv = ["--print", "--output-format=stream-json", "--verbose"]
    argv += [f"--mcp-config={config}"]
    if not request.native:
        argv += ["--strict-mcp-config", "--setting-sources="]
    argv += ["--permission-mode=dontAsk"]  # what is not allowed is denied, and nobody is asked
    if request.tools == "mcp-only":
        argv += ["--tools="] if request.native else ["--tools=", "--disable-slash-commands"]
    else:
        allowed += BUILTIN
        argv.append(f"--disallowedTools={','.join(WEB)}")
    argv.append(f"--allowedTools={','.join(allowed)}")
    argv += [f"--model={request.model}"] if request.model else []
    argv += [f"--effort={effort}"] if (effort := request.options.get("effort")) else []
    return argv


def environment(request: LaunchRequest) -> tuple[dict[str, str], LentLogin | None]:
    """Return the login, where requests go, and what keeps it from doing things on its own.

    Raises:
        LoginMissingError: there is no login.
        WrongUseError: an option's value makes no sense.
    """
    environ, lent = request.environ, None
    env = dict(FIXED) if request.native else {**FIXED, "CLAUDE_CONFIG_DIR": str(request.home / ".claude")}
    if url := request.base_url or (None if request.native else environ.get("ANTHROPIC_BASE_URL")):
        env["ANTHROPIC_BASE_URL"] = url
        env["ANTHROPIC_API_KEY"] = environ.get("ANTHROPIC_API_KEY") or PLACEHOLDER
        if request.model:  # for side work it would otherwise ask for one that may not be there
            env["ANTHROPIC_DEFAULT_HAIKU_MODEL"] = request.model
    elif request.native:
        lent = native_login(environ, LOGIN, FILE)
    elif found := login("claude-code", environ, LOGIN, FILE):
        env[found[0]] = found[1]
    else:
        env[LOGIN_FOLDER] = str(FILE.at(environ).parent)
        lent = FILE.lent(environ)
    if (retries := whole_number(request.options, "max_retries")) is not None:
        env["CLAUDE_CODE_MAX_RETRIES"] = str(retries)
    return env, lent


def fault(session: Session, server: McpServer) -> Fault | None:
    """Say whether something outside the agent failed. It ends with code 0 and kind words either way."""
    for known in session.servers:
        with suppress(*ODD):
            if known["name"] == server.name and known["status"] != "connected":
                return Fault(kind="server_not_connected", detail=f"{server.name}: {known['status']}")
    result: Mapping[str, Any] = session.result or {}
    if result.get("terminal_reason") == "api_error":
        detail = str(result.get("result"))
        login = "/login" in detail
        return Fault(kind="login_missing" if login else "endpoint_error", detail=detail)
    if session.denied:
        return Fault(kind="approval_needed", detail=f"denied: {', '.join(sorted(session.denied))}")
    if not result and session.retrying:
        return Fault(kind="endpoint_error", detail=f"ended while it tried again: {session.retrying}")
    return None
