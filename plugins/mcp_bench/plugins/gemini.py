"""Google's Gemini CLI, by its headless mode.

Written for 0.61. Its configuration: https://geminicli.com/docs/reference/configuration
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
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
from mcp_bench.plugins.executable import find_executable
from mcp_bench.plugins.gemini_session import Session, read_session
from mcp_bench.plugins.json_lines import ODD, tail
from mcp_bench.plugins.login import PLACEHOLDER, login
from mcp_bench.plugins.mcp_config import mcp_servers
from mcp_bench.plugins.needs import LoginFile, Needs
from mcp_bench.plugins.options import whole_number
from mcp_bench.plugins.turns import final_answer

LOGIN = ("GEMINI_API_KEY", "GOOGLE_API_KEY")

WEB = ("google_web_search", "web_fetch")

ARGUMENT_BYTES = 100_000
"""A longer prompt than this goes to stdin, which the program gives up on if it is slow: Linux has a limit of
128 KiB for an argument."""

OWN_FAILURE = re.compile(r"exceeds the maximum number of tokens")
"""A request failed because of what the model did, not because of the endpoint."""
RETRYING = re.compile(r"^Attempt \d+ failed.*", re.MULTILINE)


class Gemini:
    name = "gemini"
    summary = "Google's Gemini CLI."
    capabilities = Capabilities(reports_usage=True, reports_reasoning=True, http=True)
    needs = Needs(
        tested="0.61.0",
        node=20,
        login=LOGIN,
        login_files=(LoginFile(".gemini/oauth_creds.json"),),
        log_in="gemini",
        endpoint="https://generativelanguage.googleapis.com",
        endpoints={"GOOGLE_API_KEY": "https://aiplatform.googleapis.com"},
        endpoint_variables=("GOOGLE_GEMINI_BASE_URL",),
    )
    options: Mapping[str, str] = {
        "max_retries": "attempts again on failed model requests, up to 9 (the default)",
    }

    def find(self, environ: Mapping[str, str]) -> Installation:
        return find_executable("gemini", environ, "npm install -g @google/gemini-cli")

    def prepare(self, request: LaunchRequest) -> Launch:
        """Raises:
        LoginMissingError: there is no login.
        WrongUseError: an option's value makes no sense.
        """
        home = request.home / ".gemini"
        (home / "policies").mkdir(parents=True)
        env = environment(request)
        (home / "settings.json").write_text(json.dumps(settings(request, env)), encoding="utf-8")
        (home / "policies" / "episode.toml").write_text(policy(request), encoding="utf-8")
        argv = [request.installation.executable, "--output-format=stream-json"]
        argv += [f"--model={request.model}"] if request.model else []
        # A slash at the start would make it a command, and quotes around it would be taken away.
        prompt = f"\n{request.prompt}" if request.prompt.startswith(("/", '"', "'")) else request.prompt
        if len(prompt.encode()) > ARGUMENT_BYTES:
            return Launch(tuple(argv), env, stdin=prompt.encode())
        return Launch((*argv, f"--prompt={prompt}"), env)

    def read(self, output: AgentOutput, server: McpServer) -> Transcript:
        session = read_session(output.stdout, output.home / ".gemini", server)
        messages = session.turns.messages()
        return Transcript(
            messages=messages,
            answer=final_answer(messages),
            usage=session.usage,
            model=session.model,
            fault=fault(session, output),
        )


def environment(request: LaunchRequest) -> dict[str, str]:
    """Return the login, where requests go, and what keeps it from starting itself a second time."""
    env = {"GEMINI_CLI_NO_RELAUNCH": "true"}
    if url := request.base_url or request.environ.get("GOOGLE_GEMINI_BASE_URL"):
        env["GOOGLE_GEMINI_BASE_URL"] = url
        keys = (request.environ.get(name) for name in LOGIN)
        env["GEMINI_API_KEY"] = next(filter(None, keys), PLACEHOLDER)
    else:
        name, value = login("gemini", request.environ, LOGIN)
        env[name] = value
    return env


def settings(request: LaunchRequest, env: Mapping[str, str]) -> dict[str, Any]:
    """Return what goes into settings.json. Times are in milliseconds."""
    retries = whole_number(request.options, "max_retries")
    document = mcp_servers(request.server)
    document["mcpServers"][request.server.name]["timeout"] = 3_600_000
    return {
        **document,
        "general": {
            "enableAutoUpdate": False,
            "plan": {"enabled": False},
            **({} if retries is None else {"maxAttempts": retries + 1}),
        },
        "security": {
            # a key for Google Cloud is for another endpoint than one for the Gemini API
            "auth": {"selectedType": "gemini-api-key" if "GEMINI_API_KEY" in env else "vertex-ai"},
            "environmentVariableRedaction": {"enabled": True, "blocked": list(LOGIN)},
            "folderTrust": {"enabled": False},
        },
        "context": {"memoryBoundaryMarkers": []},  # nothing is read from the folders above
        "advanced": {"ignoreLocalEnv": True},
        "privacy": {"usageStatisticsEnabled": False},
        "tools": {"sandbox": False},
    }


def policy(request: LaunchRequest) -> str:
    """Return the rules by which tools are offered and run: nobody is there to be asked."""
    if request.tools == "all":
        web = json.dumps(WEB)
        return rule('"*"', "allow", 100, "allowRedirection = true\n") + rule(web, "deny", 200)
    server = f"mcpName = {json.dumps(request.server.name)}\n"
    return rule('"*"', "deny", 100) + rule('"*"', "allow", 200, server)


def rule(tools: str, decision: str, priority: int, more: str = "") -> str:
    return f'[[rule]]\ntoolName = {tools}\ndecision = "{decision}"\npriority = {priority}\n{more}\n'


def fault(session: Session, output: AgentOutput) -> Fault | None:
    """Say whether something outside the agent failed. Its exit code and its last words do not tell."""
    stderr = tail(output.stderr)
    if session.id is None:
        if "GEMINI_API_KEY" in stderr or "auth" in stderr.lower():
            return Fault(kind="login_missing", detail=stderr)
        return Fault(kind="bad_option", detail=stderr) if "settings.json" in stderr else None
    if not session.called and "MCP issues detected" in stderr:
        return Fault(kind="server_not_connected", detail=stderr)
    if session.unapproved:
        return Fault(kind="approval_needed", detail=session.unapproved)
    with suppress(*ODD):
        if session.result is None:
            return cut_off(output)
        if session.result["status"] == "error":
            message = str(session.result["error"]["message"])
            if "API Error" in message and not OWN_FAILURE.search(message):
                return Fault(kind="endpoint_error", detail=message)
    return None


def cut_off(output: AgentOutput) -> Fault | None:
    """Say whether it was ended while it tried a request again: nothing came on stdout since."""
    with suppress(OSError):
        if output.stderr.stat().st_mtime_ns < output.stdout.stat().st_mtime_ns:
            return None
    failed = RETRYING.findall(tail(output.stderr))
    return (
        Fault(kind="endpoint_error", detail=f"ended while it tried again: {failed[-1]}") if failed else None
    )
