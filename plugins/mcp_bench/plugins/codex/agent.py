"""OpenAI's Codex CLI, by `codex exec`.

Written for 0.169. Its configuration: https://developers.openai.com/codex/config-reference
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from mcp_bench.plugins.codex.session import read_session
from mcp_bench.plugins.context_overflow import overflowed
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
from mcp_bench.plugins.json_lines import ODD, json_lines, tail
from mcp_bench.plugins.login import PLACEHOLDER, LoginFile, login, native_login
from mcp_bench.plugins.needs import Needs
from mcp_bench.plugins.options import whole_number
from mcp_bench.plugins.turns import final_answer

LOGIN = ("CODEX_API_KEY", "OPENAI_API_KEY")
KEY = "CODEX_API_KEY"
"""`codex exec` logs in by this variable, and not by OPENAI_API_KEY."""

FILE = LoginFile(
    "auth.json",
    ".codex",
    "codex login",
    ("CODEX_HOME",),
    alone="Codex processes that renew it at the same moment spend the same refresh token",
)
"""Written by way of a file beside it that takes its name, and through a link: the original is renewed. There
is a lock beside it, too, but of four processes at once all four were seen to spend the one token."""

QUIET = ("apps", "plugins", "hooks", "shell_snapshot")
"""Features that have no place in an episode: they look around on the machine or on the network, or
write down the environment, login included."""
BUILTIN = (
    *("shell_tool", "unified_exec", "view_image", "image_generation", "sleep_tool", "goals", "skill_search"),
    "tool_suggest",
)
"""Features that are tools of its own. Models that Codex knows keep two whatever the configuration says:
`apply_patch`, which the read-only sandbox refuses, and a script tool without files or network."""

OWN_FAILURE = "max_output_tokens"
"""A turn failed because of what the model did, not because of the endpoint."""

FREE = "danger-full-access"
"""Without a sandbox of its own."""


class Codex:
    name = "codex"
    summary = "OpenAI's Codex CLI."
    capabilities = Capabilities(reports_usage=True, reports_reasoning=True, http=True, native=True)
    needs = Needs(
        tested="0.169.0",
        node=16,
        login=LOGIN,
        login_files=(FILE,),
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
        argv = [request.installation.executable, "exec", "--json", "--skip-git-repo-check"]
        if request.native:
            env, lent = native_access(request)
            argv += [part for pair in overrides(request) for part in ("-c", pair)]
        else:
            write_configuration(request)
            env, lent = access(request)
            argv.append("--strict-config")
        argv += ["-C", str(request.workdir), "-"]
        return Launch(tuple(argv), env, stdin=request.prompt.encode(), login=lent)

    def read(self, output: AgentOutput, server: McpServer) -> Transcript:
        events = list(json_lines(output.stdout))
        session = read_session(output.folder(".codex", "CODEX_HOME"), events, server)
        messages = session.turns.messages()
        return Transcript(
            messages=messages,
            answer=final_answer(messages),
            usage=session.usage,
            model=session.model,
            fault=fault(events, tail(output.stderr), server),
        )


def access(request: LaunchRequest) -> tuple[dict[str, str], LentLogin | None]:
    """Return the variables of a private home, the login included, or lend the user's login to that home.

    Raises:
        LoginMissingError: there is no login.
    """
    home = request.home / ".codex"
    env = {"CODEX_HOME": str(home)}
    if endpoint(request):
        return env | {KEY: endpoint_key(request)}, None
    if found := login("codex", request.environ, LOGIN, FILE):
        return env | {KEY: found[1]}, None
    return env, FILE.lend(request.environ, home)


def native_access(request: LaunchRequest) -> tuple[dict[str, str], LentLogin | None]:
    if endpoint(request):
        return {KEY: endpoint_key(request)}, None
    return {}, native_login(request.environ, (KEY,), FILE)


def endpoint(request: LaunchRequest) -> str | None:
    """Return where requests are to go instead of OpenAI; in its own home it finds that by itself."""
    return request.base_url or (None if request.native else request.environ.get("OPENAI_BASE_URL"))


def endpoint_key(request: LaunchRequest) -> str:
    return next((request.environ[name] for name in LOGIN if request.environ.get(name)), PLACEHOLDER)


def overrides(request: LaunchRequest) -> list[str]:
    """Return what is laid over the user's own configuration, as `key=value`.

    Raises:
        WrongUseError: an option's value makes no sense.
    """
    config = configuration(request)
    del config["analytics"]
    if request.tools == "all":
        for own in ("sandbox_mode", "web_search"):
            del config[own]
    else:
        del config["skills"]
    features = config.pop("features")
    servers = config.pop("mcp_servers")
    kept = {name: value for name, value in features.items() if name not in QUIET}
    config |= {f"features.{name}": value for name, value in kept.items()}
    config |= {f"mcp_servers.{name}": value for name, value in servers.items()}
    config |= {f"model_providers.{name}": value for name, value in config.pop("model_providers", {}).items()}
    return [f"{key}={toml(value)}" for key, value in config.items()]


def write_configuration(request: LaunchRequest) -> None:
    """Make the configuration of a home of its own."""
    home = request.home / ".codex"
    home.mkdir()
    config = "".join(f"{key} = {toml(value)}\n" for key, value in configuration(request).items())
    (home / "config.toml").write_text(config, encoding="utf-8")


def configuration(request: LaunchRequest) -> dict[str, Any]:
    """Return what goes into config.toml."""
    server = request.server
    mcp_only = request.tools == "mcp-only"
    config: dict[str, Any] = {
        "approval_policy": "never",
        "sandbox_mode": "read-only" if mcp_only else FREE if request.isolated else "workspace-write",
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


def fault(events: Sequence[Mapping[str, Any]], stderr: str, server: McpServer) -> Fault | None:
    """Say whether something outside the agent failed. Its exit code and its last words do not tell."""
    if not events:
        if "MCP servers failed to initialize" in stderr:
            return Fault(kind="server_not_connected", detail=stderr)
        return Fault(kind="bad_option", detail=stderr) if "config" in stderr else None
    for event in events:
        with suppress(*ODD):
            item = event["item"]
            problem = (item.get("error") or {}).get("message", "")
            ours = item["type"] == "mcp_tool_call" and item["server"] == server.name
            if ours and "requires approval" in problem:
                return Fault(kind="approval_needed", detail=problem)
    last = events[-1]
    if last.get("type") not in ("turn.failed", "error"):
        return None
    with suppress(*ODD):
        message = str(last["error"]["message"] if "error" in last else last["message"])
        if OWN_FAILURE in message or overflowed(message):
            return None
        login = "Missing bearer" in message or "codex login" in message
        return Fault(kind="login_missing" if login else "endpoint_error", detail=message)
    return None
