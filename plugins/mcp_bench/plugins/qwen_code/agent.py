"""Alibaba's Qwen Code, by its headless mode.

Written for 0.24, which needs Node.js 22. Its settings:
https://qwenlm.github.io/qwen-code-docs/en/users/configuration/settings
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from mcp_bench.plugins.cli_agent import CliAgent, mcp_servers, whole_number
from mcp_bench.plugins.contracts import (
    AgentOutput,
    Capabilities,
    Fault,
    Launch,
    LaunchRequest,
    LentLogin,
    McpServer,
)
from mcp_bench.plugins.gemini.agent import imports
from mcp_bench.plugins.needs import LoginMissingError, Needs
from mcp_bench.plugins.output import endpoint_fault, not_approved, not_connected, overflowed
from mcp_bench.plugins.qwen_code.session import QwenSession, read_session, session_id
from mcp_bench.plugins.text_files import json_lines

KEY = "OPENAI_API_KEY"

FIXED = {
    "QWEN_CODE_DISABLE_CRON": "1",
    "QWEN_CODE_NO_RELAUNCH": "true",
    "QWEN_CODE_SUPPRESS_YOLO_WARNING": "1",
}

BUILTIN = (
    *("agent", "cron_create", "cron_delete", "cron_list", "edit", "enter_worktree", "exit_worktree"),
    *("get_goal", "glob", "grep_search", "list_agents", "list_directory", "loop_wakeup", "monitor"),
    *("notebook_edit", "propose_goal", "read_file", "read_mcp_resource", "record_artifact"),
    *("report_findings", "run_shell_command", "send_message", "skill", "task_stop", "todo_write"),
    *("tool_call", "tool_search", "update_goal", "web_fetch", "write_file", "zoom_image"),
)
"""Its own tools."""
WEB = ("web_fetch",)
FOR_USERS = ("ask_user_question", "enter_plan_mode", "exit_plan_mode")
"""Tools of its own that it offers in a session that goes on: their answers would come from nobody."""

NOTES = "NOTES-OF-THIS-EPISODE.md"
"""Its file of instructions, under another name: else it would read those of the folders above."""

MARKERS = ("{{args}}", "!{", "@{")
"""Placeholders that a command file expands."""

NO_LOGIN = re.compile(r"No auth type|Missing API key")
OWN_END = re.compile(
    r"^Loop detection halted the run|Model stream ended (with empty response|after a tool result without)"
)
"""It repeats itself, or its model says nothing in a whole answer: its own failure."""


class QwenCode(CliAgent[QwenSession]):
    name = "qwen-code"
    summary = "Alibaba's Qwen Code."
    program = "qwen"
    install = "npm install -g @qwen-code/qwen-code"
    capabilities = Capabilities(
        reports_usage=True, reports_reasoning=True, http=True, native=True, system=True
    )
    needs = Needs(
        tested="0.24.4",
        node=22,
        login=(KEY,),
        log_in="qwen",
        endpoint="https://api.openai.com/v1",
        endpoint_variables=("OPENAI_BASE_URL",),
        api="chat-completions",
    )
    options: Mapping[str, str] = {
        "max_retries": "further rounds on a limit of requests, each of seven attempts (default 10)"
    }

    def configuration_variables(self, request: LaunchRequest) -> dict[str, str]:
        model = request.model or request.environ.get("OPENAI_MODEL")
        return {**FIXED, **({"OPENAI_MODEL": model} if model else {})}

    def lend_login(self, request: LaunchRequest) -> tuple[dict[str, str], LentLogin]:
        """Refuse: its own login is part of its settings, and cannot be lent without them."""
        missing = self.needs.login_missing(self.name, request.environ, self.needs.login)
        raise LoginMissingError(
            f"{missing}; what `qwen auth` wrote is among the settings in ~/.qwen, which --home native uses"
        )

    def setup(self, request: LaunchRequest, env: Mapping[str, str]) -> None:
        """Write the settings; in the user's HOME, as those of a project. The prompt becomes a command."""
        folder = own_folder(request)
        (folder / "commands").mkdir(parents=True)
        document = settings(request)
        if request.native:
            document = project_settings(request, document)
        (folder / "settings.json").write_text(json.dumps(document), encoding="utf-8")
        if request.system and not imports(request.system):
            place = request.workdir / "QWEN.md" if request.native else folder / NOTES
            place.write_text(request.system, encoding="utf-8")
        if not expands(prompt(request)):
            text = json.dumps(prompt(request), ensure_ascii=False).replace("\x7f", "\\u007f")
            command = folder / "commands" / "episode.toml"
            command.write_text(f"prompt = {text}\n", encoding="utf-8")

    def arguments(self, request: LaunchRequest) -> list[str]:
        argv = ["--output-format=stream-json"]
        if request.native:
            argv.append(f"--mcp-config={json.dumps(server_entry(request))}")
        if request.tools == "all":
            argv.append("--approval-mode=yolo")
        else:
            argv += ["--approval-mode=default", f"--allowed-tools=mcp__{request.server.name}"]
        argv += [f"--model={request.model}"] if request.model else []
        # As plain text, a prompt gets a space before every `@`, which marks a file, so that addresses break;
        # and one that begins with a slash is taken for a command. A command of its own avoids both.
        asked = prompt(request)
        argv.append(f"--prompt=\n{asked}" if expands(asked) else "--prompt=/episode")
        return argv

    def stdin(self, request: LaunchRequest) -> bytes:
        return b""

    def resume(self, launch: Launch, said: str, output: AgentOutput) -> Launch | None:
        """Return `qwen --resume`, with the options of the first launch.

        As a line of JSON, a message stays as it is, and needs no file of ours.
        """
        if (session := session_id(json_lines(output.stdout))) is None:
            return None
        options = [word for word in launch.argv if not word.startswith("--prompt=")]
        line = {
            "type": "user",
            "session_id": session,
            "parent_tool_use_id": None,
            "message": {"role": "user", "content": said},
        }
        argv = (*options, "--input-format=stream-json", f"--resume={session}")
        return replace(launch, argv=argv, stdin=json.dumps(line).encode() + b"\n")

    def read_session(self, output: AgentOutput, server: McpServer) -> QwenSession:
        moved = "QWEN_RUNTIME_DIR" if output.environ.get("QWEN_RUNTIME_DIR") else "QWEN_HOME"
        folder = output.files(".qwen", moved)
        return read_session(output.stdout, folder, server)

    def fault(self, session: QwenSession, output: AgentOutput, server: McpServer) -> Fault | None:
        if failed := not_connected(session.servers, server) or not_approved(session.denied):
            return failed
        if not session.error or overflowed(session.error) or OWN_END.search(session.error):
            return None
        if NO_LOGIN.search(session.error):
            return Fault(kind="login_missing", detail=session.error)
        return endpoint_fault(session.error)


def own_folder(request: LaunchRequest) -> Path:
    """Return the folder of its settings; in the user's HOME, that of a project: the working directory."""
    return (request.workdir if request.native else request.home) / ".qwen"


def prompt(request: LaunchRequest) -> str:
    """Return the prompt, after instructions that the program would change in its file of instructions."""
    head = f"{request.system}\n\n" if imports(request.system) else ""
    return head + request.prompt


def expands(prompt: str) -> bool:
    """Return whether a command file would expand parts of the prompt."""
    return any(marker in prompt for marker in MARKERS)


def server_entry(request: LaunchRequest) -> dict[str, Any]:
    document = mcp_servers(request.server)
    entry = document["mcpServers"][request.server.name]
    entry |= {"timeout": 3_600_000, "discoveryTimeoutMs": 60_000}
    if request.server.url:  # under the name `url` it would be server-sent events, the older transport
        entry["httpUrl"] = entry.pop("url")
    return document


def settings(request: LaunchRequest) -> dict[str, Any]:
    """Return the content of settings.json. Times are in milliseconds."""
    retries = whole_number(request.options, "max_retries")
    return {
        **server_entry(request),
        **({} if retries is None else {"model": {"generationConfig": {"maxRetries": retries}}}),
        "security": {"auth": {"selectedType": "openai"}, "folderTrust": {"enabled": False}},
        "general": {"enableAutoUpdate": False},
        "mcp": {"toolIdleTimeoutMs": 3_600_000},
        # Else MCP tools are missing until the model searches for them.
        "tools": {"toolSearch": {"enabled": False}, "sandbox": False},
        "permissions": {"deny": [*(WEB if request.tools == "all" else BUILTIN), *FOR_USERS]},
        "memory": dict.fromkeys(
            ("enableManagedAutoMemory", "enableManagedAutoDream", "enableAutoSkill"), False
        ),
        "context": {"fileName": NOTES},
        "privacy": {"usageStatisticsEnabled": False},
    }


def project_settings(request: LaunchRequest, sealed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that override the user's own settings.json."""
    kept = {key: sealed[key] for key in ("general", "mcp", "model", "tools") if key in sealed}
    if request.tools == "mcp-only":
        kept["permissions"] = sealed["permissions"]
    if request.base_url:
        kept["security"] = {"auth": {"selectedType": "openai"}}
    return kept
