"""OpenAI's Codex CLI, by `codex exec`.

Written for 0.169. Its configuration: https://developers.openai.com/codex/config-reference
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from mcp_bench.plugins.codex_session import read_session
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
from mcp_bench.plugins.json_lines import ODD, json_lines, tail
from mcp_bench.plugins.login import PLACEHOLDER, login
from mcp_bench.plugins.needs import LoginFile, Needs
from mcp_bench.plugins.options import whole_number
from mcp_bench.plugins.turns import final_answer

LOGIN = ("CODEX_API_KEY", "OPENAI_API_KEY")
KEY = "CODEX_API_KEY"
"""`codex exec` logs in by this variable, and not by OPENAI_API_KEY."""

QUIET = ("apps", "plugins", "hooks", "shell_snapshot")
"""Features that have no place in an episode: they look around on the machine or on the network, or
write down the environment, login included."""
BUILTIN = (
    *("shell_tool", "unified_exec", "view_image", "image_generation", "sleep_tool", "goals", "skill_search"),
    "tool_suggest",
)
"""Features that are tools of its own. Models that Codex knows keep two whatever the configuration says:
`apply_patch`, which the read-only sandbox refuses, and a script tool without files or network."""

OWN_FAILURE = re.compile(r"context window|max_output_tokens")
"""A turn failed because of what the model did, not because of the endpoint."""


class Codex:
    name = "codex"
    summary = "OpenAI's Codex CLI."
    capabilities = Capabilities(reports_usage=True, reports_reasoning=True, http=True)
    needs = Needs(
        tested="0.169.0",
        node=16,
        login=LOGIN,
        login_files=(LoginFile(".codex/auth.json", "CODEX_HOME"),),
        log_in="codex login",
        endpoint="https://api.openai.com/v1",
        endpoint_variables=("OPENAI_BASE_URL",),
    )
    options: Mapping[str, str] = {
        "effort": "reasoning effort (minimal, low, medium, high, ...)",
        "max_retries": "attempts again on failed model requests; needs an endpoint of your own",
    }

    def find(self, environ: Mapping[str, str]) -> Installation:
        return find_executable("codex", environ, "npm install -g @openai/codex")

    def prepare(self, request: LaunchRequest) -> Launch:
        """Raises:
        LoginMissingError: there is no login.
        WrongUseError: an option's value makes no sense.
        """
        home = request.home / ".codex"
        home.mkdir()
        config = "".join(f"{key} = {toml(value)}\n" for key, value in configuration(request).items())
        (home / "config.toml").write_text(config, encoding="utf-8")
        if endpoint(request):
            key = next((request.environ[name] for name in LOGIN if request.environ.get(name)), PLACEHOLDER)
        else:
            _, key = login("codex", request.environ, LOGIN)
        argv = ("exec", "--json", "--strict-config", "--skip-git-repo-check", "-C", str(request.workdir), "-")
        return Launch(
            (request.installation.executable, *argv),
            {"CODEX_HOME": str(home), KEY: key},
            stdin=request.prompt.encode(),
        )

    def read(self, output: AgentOutput, server: McpServer) -> Transcript:
        events = list(json_lines(output.stdout))
        session = read_session(output.home / ".codex", events, server)
        messages = session.turns.messages()
        return Transcript(
            messages=messages,
            answer=final_answer(messages),
            usage=session.usage,
            model=session.model,
            fault=fault(events, tail(output.stderr)),
        )


def endpoint(request: LaunchRequest) -> str | None:
    return request.base_url or request.environ.get("OPENAI_BASE_URL")


def configuration(request: LaunchRequest) -> dict[str, Any]:
    """Return what goes into config.toml."""
    server = request.server
    mcp_only = request.tools == "mcp-only"
    config: dict[str, Any] = {
        "approval_policy": "never",
        "sandbox_mode": "read-only" if mcp_only else "workspace-write",
        "web_search": "disabled",
        "check_for_update_on_startup": False,
        "analytics": {"enabled": False},
        # Newer models get MCP tools only inside a script tool, or behind a search, unless told otherwise.
        "features": {
            **dict.fromkeys((*QUIET, *BUILTIN) if mcp_only else QUIET, False),
            "code_mode": {"direct_only_tool_namespaces": [f"mcp__{server.name}"]},
        },
        "mcp_servers": {
            server.name: {
                **(
                    {"url": server.url}
                    if server.url
                    else {"command": server.command[0], "args": list(server.command[1:])}
                ),
                "required": True,
                **({"enabled_tools": list(server.tools)} if server.tools else {}),
                "default_tools_approval_mode": "approve",
                "startup_timeout_sec": 60,
                "tool_timeout_sec": 3600,
            }
        },
    }
    if mcp_only:
        config |= {"agents": {"enabled": False}, "skills": {"bundled": {"enabled": False}}}
    if request.model:
        config["model"] = request.model
    if effort := request.options.get("effort"):
        config["model_reasoning_effort"] = effort
    retries = whole_number(request.options, "max_retries")
    if url := endpoint(request):
        provider: dict[str, Any] = {
            "name": "endpoint",
            "base_url": url,
            "wire_api": "responses",
            "env_key": KEY,
        }
        if retries is not None:
            provider |= {"request_max_retries": retries, "stream_max_retries": retries}
        config |= {"model_provider": "endpoint", "model_providers": {"endpoint": provider}}
    return config


def toml(value: Any) -> str:
    """Return a value as TOML on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{toml(key)} = {toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def fault(events: Sequence[Mapping[str, Any]], stderr: str) -> Fault | None:
    """Say whether something outside the agent failed. Its exit code and its last words do not tell."""
    if not events:
        if "MCP servers failed to initialize" in stderr:
            return Fault(kind="server_not_connected", detail=stderr)
        return Fault(kind="bad_option", detail=stderr) if "config" in stderr else None
    for event in events:
        with suppress(*ODD):
            problem = (event["item"].get("error") or {}).get("message", "")
            if event["item"]["type"] == "mcp_tool_call" and "requires approval" in problem:
                return Fault(kind="approval_needed", detail=problem)
    last = events[-1]
    if last.get("type") not in ("turn.failed", "error"):
        return None
    with suppress(*ODD):
        message = str(last["error"]["message"] if "error" in last else last["message"])
        if OWN_FAILURE.search(message):
            return None
        login = "Missing bearer" in message or "codex login" in message
        return Fault(kind="login_missing" if login else "endpoint_error", detail=message)
    return None
