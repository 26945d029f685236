"""OpenAI's Codex CLI, by `codex exec`.

Written for 0.169. Its configuration: https://developers.openai.com/codex/config-reference
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from mcp_bench.plugins.cli_agent import CliAgent, first_set, whole_number
from mcp_bench.plugins.codex.session import CodexSession, read_session, thread_of
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
from mcp_bench.plugins.output import ODD, cut_short, endpoint_fault, overflowed
from mcp_bench.plugins.text_files import json_lines, tail
from mcp_bench.servers.errors import WrongUseError

KEY = "CODEX_API_KEY"
"""`codex exec` logs in by this variable, and not by OPENAI_API_KEY."""
LOGIN = (KEY, "OPENAI_API_KEY")

FILE = LoginFile(
    "auth.json",
    ".codex",
    "codex login",
    ("CODEX_HOME",),
    alone="Codex processes that renew it at the same moment spend the same refresh token",
)
"""Codex renews it by renaming a new file over it, and follows a link: the original is renewed. It has a lock
beside the file, too, but of four processes at once all four spent the one token."""

QUIET = ("apps", "plugins", "hooks", "shell_snapshot")
"""Features that have no place in an episode: they look around on the machine or on the network, or
write down the environment, login included."""
BUILTIN = (
    *("shell_tool", "unified_exec", "view_image", "image_generation", "sleep_tool", "goals", "skill_search"),
    "tool_suggest",
)
"""Features that are its own tools. Models that Codex knows keep two whatever the configuration says:
`apply_patch`, which the read-only sandbox refuses, and a script tool without files or network."""

NO_SANDBOX = "danger-full-access"


class Codex(CliAgent[CodexSession]):
    name = "codex"
    summary = "OpenAI's Codex CLI."
    program = "codex"
    install = "npm install -g @openai/codex"
    capabilities = Capabilities(
        reports_usage=True, reports_reasoning=True, http=True, native=True, system=True, inside=True
    )
    needs = Needs(
        tested="0.169.0",
        node=16,
        login=LOGIN,
        login_files=(FILE,),
        log_in="codex login",
        endpoint="https://api.openai.com/v1",
        endpoint_variables=("OPENAI_BASE_URL",),
        api="responses",
    )
    options: Mapping[str, str] = {
        "effort": "reasoning effort (minimal, low, medium, high, ...)",
        "max_retries": "attempts again on failed model requests; needs an endpoint of your own",
    }

    def configuration_variables(self, request: LaunchRequest) -> dict[str, str]:
        return {} if request.native else {"CODEX_HOME": str(request.home / ".codex")}

    def log_in(self, request: LaunchRequest) -> tuple[dict[str, str], LentLogin | None]:
        found, lent = super().log_in(request)
        return ({KEY: next(iter(found.values()))} if found else {}), lent

    def use_endpoint(self, request: LaunchRequest, url: str) -> dict[str, str]:
        """Return the key; the address goes into the configuration."""
        return {KEY: first_set(request.environ, LOGIN) or PLACEHOLDER}

    def login_variables(self, request: LaunchRequest) -> Sequence[str]:
        return (KEY,) if request.native else LOGIN

    def setup(self, request: LaunchRequest, env: Mapping[str, str]) -> None:
        """Write config.toml, unless the user's own is to be used: then `arguments` overrides it."""
        if not request.native:
            home = request.home / ".codex"
            home.mkdir(exist_ok=True)
            lines = [f"{key} = {toml(value)}\n" for key, value in self.configuration(request).items()]
            (home / "config.toml").write_text("".join(lines), encoding="utf-8")

    def arguments(self, request: LaunchRequest) -> list[str]:
        argv = ["exec", "--json", "--skip-git-repo-check"]
        if request.native:
            argv += [part for pair in self.overrides(request) for part in ("-c", pair)]
        else:
            argv.append("--strict-config")
        return [*argv, "-C", str(request.workdir), "-"]

    def resume(self, launch: Launch, said: str, output: AgentOutput) -> Launch | None:
        """Return `codex exec resume`, with the options of the first launch."""
        if (thread := thread_of(json_lines(output.stdout))) is None:
            return None
        return replace(launch, argv=(*launch.argv[:-1], "resume", thread, "-"), stdin=said.encode())

    def configuration(self, request: LaunchRequest) -> dict[str, Any]:
        """Return the content of config.toml.

        Raises:
            WrongUseError: an option makes no sense, or would be ignored.
        """
        server = request.server
        mcp_only = request.tools == "mcp-only"
        config: dict[str, Any] = {
            "approval_policy": "never",
            "sandbox_mode": (
                "read-only" if mcp_only else NO_SANDBOX if request.isolated else "workspace-write"
            ),
            "web_search": "disabled",
            "check_for_update_on_startup": False,
            "analytics": {"enabled": False},
            # By default, newer models get MCP tools only inside a script tool, or behind a search.
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
        if request.system:
            config["developer_instructions"] = request.system
        if request.model:
            config["model"] = request.model
        if effort := request.options.get("effort"):
            config["model_reasoning_effort"] = effort
        retries = whole_number(request.options, "max_retries")
        if url := self.endpoint(request):
            provider: dict[str, Any] = {
                "name": "endpoint",
                "base_url": url,
                "wire_api": "responses",
                "env_key": KEY,
            }
            if retries is not None:
                provider |= {"request_max_retries": retries, "stream_max_retries": retries}
            config |= {"model_provider": "endpoint", "model_providers": {"endpoint": provider}}
        elif retries is not None:  # the recording would say that it had worked under it
            raise WrongUseError(
                "agent option max_retries: Codex takes it with an endpoint of your own only. Name one with "
                "--base-url, or leave the option out"
            )
        return config

    def overrides(self, request: LaunchRequest) -> list[str]:
        """Return the settings that override the user's own configuration, as `key=value`."""
        config = self.configuration(request)
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
        config |= {
            f"model_providers.{name}": value for name, value in config.pop("model_providers", {}).items()
        }
        return [f"{key}={toml(value)}" for key, value in config.items()]

    def read_session(self, output: AgentOutput, server: McpServer) -> CodexSession:
        return read_session(output.files(".codex", "CODEX_HOME"), json_lines(output.stdout), server)

    def fault(self, session: CodexSession, output: AgentOutput, server: McpServer) -> Fault | None:
        """Return what failed outside the agent. Its exit code and its last words do not show it."""
        events = session.events
        if not events:
            stderr = tail(output.stderr)
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
            if cut_short(message) or overflowed(message):
                return None
            login = "Missing bearer" in message or "codex login" in message
            return Fault(kind="login_missing", detail=message) if login else endpoint_fault(message)
        return None


def toml(value: Any) -> str:
    """Return a value as TOML on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{toml(key)} = {toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    text = json.dumps(value, ensure_ascii=False)
    return text.replace("\x7f", "\\u007f")  # JSON allows this one character in a text, and TOML does not
