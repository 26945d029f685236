"""Qwen Code, by its headless mode.

Written for 0.24, which needs Node.js 22. Its settings:
https://qwenlm.github.io/qwen-code-docs/en/users/configuration/settings
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from mcp_bench.plugins.context_overflow import overflowed
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
from mcp_bench.plugins.json_lines import ODD
from mcp_bench.plugins.login import PLACEHOLDER, LoginMissingError
from mcp_bench.plugins.mcp_config import mcp_servers
from mcp_bench.plugins.needs import Needs
from mcp_bench.plugins.options import whole_number
from mcp_bench.plugins.qwen_code.session import Session, read_session
from mcp_bench.plugins.turns import final_answer

LOGIN = ("OPENAI_API_KEY",)
"""A login of its own lies among its settings (`~/.qwen/settings.json`), so that it cannot be lent without
them: that is what the user's own home is for."""

FIXED = {
    "QWEN_CODE_DISABLE_CRON": "1",
    "QWEN_CODE_NO_RELAUNCH": "true",
    "QWEN_CODE_SUPPRESS_YOLO_WARNING": "1",
}

BUILTIN = (
    *("agent", "cron_create", "cron_delete", "cron_list", "edit", "enter_worktree", "exit_worktree"),
    *("get_goal", "glob", "grep_search", "list_agents", "list_directory", "loop_wakeup", "monitor"),
    *(
        "notebook_edit",
        "propose_goal",
        "read_file",
        "read_mcp_resource",
        "record_artifact",
        "report_findings",
    ),
    *("run_shell_command", "send_message", "skill", "task_stop", "todo_write", "tool_call", "tool_search"),
    *("update_goal", "web_fetch", "write_file", "zoom_image"),
)
"""Its own tools."""
WEB = ("web_fetch",)

MARKERS = ("{{args}}", "!{", "@{")
"""What stands for something else in a command file."""

NO_LOGIN = re.compile(r"No auth type|Missing API key")


class QwenCode:
    name = "qwen-code"
    summary = "Alibaba's Qwen Code."
    capabilities = Capabilities(reports_usage=True, reports_reasoning=True, http=True, native=True)
    needs = Needs(
        tested="0.24.4",
        node=22,
        login=LOGIN,
        log_in="qwen",
        endpoint="https://api.openai.com/v1",
        endpoint_variables=("OPENAI_BASE_URL",),
    )
    options: Mapping[str, str] = {
        "max_retries": "further rounds on a limit of requests, each of seven attempts (default 10)"
    }

    def find(self, environ: Mapping[str, str]) -> Installation:
        return find_executable("qwen", environ, "npm install -g @qwen-code/qwen-code")

    def prepare(self, request: LaunchRequest) -> Launch:
        """Raises:
        LoginMissingError: there is no login.
        WrongUseError: an option's value makes no sense.
        """
        home = own_folder(request)
        (home / "commands").mkdir(parents=True)
        argv = [request.installation.executable, "--output-format=stream-json"]
        told = settings(request)
        if request.native:
            argv.append(f"--mcp-config={json.dumps({'mcpServers': told['mcpServers']})}")
            told = project_settings(request, told)
        (home / "settings.json").write_text(json.dumps(told), encoding="utf-8")
        if request.tools == "all":
            argv.append("--approval-mode=yolo")
        else:
            argv += ["--approval-mode=default", f"--allowed-tools=mcp__{request.server.name}"]
        argv += [f"--model={request.model}"] if request.model else []
        argv.append(f"--prompt={spoken(request)}")
        return Launch(tuple(argv), environment(request))

    def read(self, output: AgentOutput, server: McpServer) -> Transcript:
        session = read_session(output.stdout, chats_folder(output), server)
        messages = session.turns.messages()
        return Transcript(
            messages=messages,
            answer=final_answer(messages),
            usage=session.usage,
            model=session.model,
            fault=fault(session, server),
        )


def own_folder(request: LaunchRequest) -> Path:
    """Return where its configuration goes: in the user's home that of a project, the working directory."""
    return (request.workdir if request.native else request.home) / ".qwen"


def chats_folder(output: AgentOutput) -> Path:
    told = output.environ.get("QWEN_RUNTIME_DIR")
    return Path(told) if told else output.folder(".qwen", "QWEN_HOME")


def spoken(request: LaunchRequest) -> str:
    """Return the prompt as it is to be said: as a command that stands for it.

    One that comes as it is gets a space before every `@`, which would be that of a file, so that addresses
    break, and one that begins with a slash is taken for a command.
    """
    if any(marker in request.prompt for marker in MARKERS):
        return f"\n{request.prompt}"
    text = json.dumps(request.prompt, ensure_ascii=False).replace("\x7f", "\\u007f")
    command = own_folder(request) / "commands" / "episode.toml"
    command.write_text(f"prompt = {text}\n", encoding="utf-8")
    return "/episode"


def environment(request: LaunchRequest) -> dict[str, str]:
    """Return the login, where requests go, and what keeps it from doing things on its own."""
    environ = request.environ
    if url := request.base_url or (None if request.native else environ.get("OPENAI_BASE_URL")):
        key = environ.get("OPENAI_API_KEY") or PLACEHOLDER
        env = {**FIXED, "OPENAI_BASE_URL": url, "OPENAI_API_KEY": key}
    elif request.native:
        env = dict(FIXED)
    elif environ.get(LOGIN[0]):
        env = {**FIXED, LOGIN[0]: environ[LOGIN[0]]}
    else:
        raise LoginMissingError(
            f"qwen-code has no login: set {LOGIN[0]}, or name an endpoint of your own; what `qwen auth` "
            "wrote is among the settings in ~/.qwen, which --home native uses"
        )
    if model := request.model or environ.get("OPENAI_MODEL"):
        env["OPENAI_MODEL"] = model
    return env


def settings(request: LaunchRequest) -> dict[str, Any]:
    """Return what goes into settings.json. Times are in milliseconds."""
    document = mcp_servers(request.server)
    entry = document["mcpServers"][request.server.name]
    entry |= {"timeout": 3_600_000, "discoveryTimeoutMs": 60_000}
    if request.server.url:  # by the name `url` it would be server-sent events, the older transport
        entry["httpUrl"] = entry.pop("url")
    retries = whole_number(request.options, "max_retries")
    return {
        **document,
        **({} if retries is None else {"model": {"generationConfig": {"maxRetries": retries}}}),
        "security": {"auth": {"selectedType": "openai"}, "folderTrust": {"enabled": False}},
        "general": {"enableAutoUpdate": False},
        "mcp": {"toolIdleTimeoutMs": 3_600_000},
        # Else MCP tools are only there after a search.
        "tools": {"toolSearch": {"enabled": False}, "sandbox": False},
        "permissions": {"deny": list(WEB if request.tools == "all" else BUILTIN)},
        "memory": dict.fromkeys(
            ("enableManagedAutoMemory", "enableManagedAutoDream", "enableAutoSkill"), False
        ),
        "context": {"fileName": "NOTES-OF-THIS-EPISODE.md"},  # none is read from the folders above
        "privacy": {"usageStatisticsEnabled": False},
    }


def project_settings(request: LaunchRequest, sealed: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is laid over the user's own settings.json."""
    kept = {key: sealed[key] for key in ("general", "mcp", "model", "tools") if key in sealed}
    if request.tools == "mcp-only":
        kept["permissions"] = sealed["permissions"]
    if request.base_url:
        kept["security"] = {"auth": {"selectedType": "openai"}}
    return kept


OWN_END = "Loop detection halted the run"
"""It noticed that it did the same again and again, which is no fault of anybody else's."""


def fault(session: Session, server: McpServer) -> Fault | None:
    """Say whether something outside the agent failed."""
    for known in session.servers:
        with suppress(*ODD):
            if known["name"] == server.name and known["status"] != "connected":
                return Fault(kind="server_not_connected", detail=f"{server.name}: {known['status']}")
    if session.denied:
        return Fault(kind="approval_needed", detail=f"denied: {', '.join(sorted(session.denied))}")
    if session.error:
        if overflowed(session.error) or session.error.startswith(OWN_END):
            return None
        no_login = NO_LOGIN.search(session.error)
        return Fault(kind="login_missing" if no_login else "endpoint_error", detail=session.error)
    return None
