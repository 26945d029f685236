"""Google's Gemini CLI, by its headless mode.

Written for 0.61. Its configuration: https://geminicli.com/docs/reference/configuration
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from mcp_bench.plugins.cli_agent import CliAgent, mcp_servers, whole_number
from mcp_bench.plugins.contracts import (
    AgentOutput,
    Capabilities,
    Fault,
    LaunchRequest,
    LentLogin,
    McpServer,
)
from mcp_bench.plugins.gemini.session import GeminiSession, read_session
from mcp_bench.plugins.needs import LoginFile, Needs
from mcp_bench.plugins.output import ODD, endpoint_fault, overflowed
from mcp_bench.plugins.text_files import tail

LOGIN = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
FILE = LoginFile(
    "oauth_creds.json",
    ".gemini",
    "gemini",
    ("GEMINI_CLI_HOME",),
    ".gemini",
    beside=("google_accounts.json",),
    alone="Gemini CLI writes it in place and without a lock, so that another one may find half of it",
)
"""Written through a link. The user logs in by starting the program itself."""
WITH_FILE = ("GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_PROJECT_ID")
"""The login of a company account belongs to a project."""

WEB = ("google_web_search", "web_fetch")
BUILTIN = (
    *WEB,
    *(
        "activate_skill",
        "ask_user",
        "complete_task",
        "enter_plan_mode",
        "exit_plan_mode",
        "get_internal_docs",
    ),
    *("glob", "grep_search", "invoke_agent", "list_background_processes", "list_directory", "read_file"),
    *("read_background_output", "read_many_files", "replace", "run_shell_command", "update_topic"),
    *("write_file", "write_todos"),
    *(f"tracker_{action}" for action in ("add_dependency", "create_task", "get_task", "list_tasks")),
    *("tracker_update_task", "tracker_visualize"),
)
"""Its own tools. A list of the tools to keep would remove the tools of every server, too."""

ARGUMENT_BYTES = 100_000
"""A longer prompt goes to stdin, although the program stops waiting if that is slow: Linux limits an argument
to 128 KiB."""

RETRYING = re.compile(r"^Attempt \d+ failed.*", re.MULTILINE)


class Gemini(CliAgent[GeminiSession]):
    name = "gemini"
    summary = "Google's Gemini CLI."
    program = "gemini"
    install = "npm install -g @google/gemini-cli"
    capabilities = Capabilities(
        reports_usage=True, reports_reasoning=True, http=True, native=True, system=True
    )
    needs = Needs(
        tested="0.61.0",
        node=20,
        login=LOGIN,
        bound=("GOOGLE_API_KEY",),
        own_endpoint_login=LOGIN,  # the plugin passes either as GEMINI_API_KEY
        login_files=(FILE,),
        log_in="gemini",
        endpoint="https://generativelanguage.googleapis.com",
        endpoints={"GOOGLE_API_KEY": "https://aiplatform.googleapis.com"},
        endpoint_variables=("GOOGLE_GEMINI_BASE_URL",),
        api="gemini",
    )
    options: Mapping[str, str] = {
        "max_retries": "attempts again on failed model requests, up to 9 (the default)",
    }

    def configuration_variables(self, request: LaunchRequest) -> dict[str, str]:
        env = {"GEMINI_CLI_NO_RELAUNCH": "true"}  # else it starts itself a second time
        if request.native:  # else a project's settings are ignored; with --skip-trust they come too late
            env["GEMINI_CLI_TRUST_WORKSPACE"] = "true"
        return env

    def lend_login(self, request: LaunchRequest) -> tuple[dict[str, str], LentLogin]:
        _, lent = super().lend_login(request)
        return {name: value for name in WITH_FILE if (value := request.environ.get(name))}, lent

    def setup(self, request: LaunchRequest, env: Mapping[str, str], more_rules: str = "") -> None:
        """Write the settings; in the user's HOME, as those of a project: the working directory."""
        folder = (request.workdir if request.native else request.home) / ".gemini"
        folder.mkdir(exist_ok=True)
        document = project_settings(request) if request.native else settings(request, env)
        (folder / "settings.json").write_text(json.dumps(document), encoding="utf-8")
        if request.system and not imports(request.system):
            place = request.workdir if request.native else folder
            (place / "GEMINI.md").write_text(request.system, encoding="utf-8")
        if not request.native:
            (folder / "policies").mkdir()
            rules = policy(request) + more_rules
            (folder / "policies" / "episode.toml").write_text(rules, encoding="utf-8")

    def arguments(self, request: LaunchRequest) -> list[str]:
        argv = ["--output-format=stream-json"]
        if request.native and request.tools == "all":
            argv.append("--approval-mode=yolo")
        argv += [f"--model={request.model}"] if request.model else []
        return argv if self.stdin(request) else [*argv, f"--prompt={prompt(request)}"]

    def stdin(self, request: LaunchRequest) -> bytes:
        text = prompt(request).encode()
        return text if len(text) > ARGUMENT_BYTES else b""

    def read_session(self, output: AgentOutput, server: McpServer) -> GeminiSession:
        return read_session(output.stdout, output.files(".gemini"), server)

    def fault(self, session: GeminiSession, output: AgentOutput, server: McpServer) -> Fault | None:
        """Return what failed outside the agent. Its exit code and its last words do not show it."""
        stderr = tail(output.stderr)
        if session.id is None:
            if "GEMINI_API_KEY" in stderr or "auth" in stderr.lower():
                return Fault(kind="login_missing", detail=stderr)
            return Fault(kind="bad_option", detail=stderr) if "settings.json" in stderr else None
        if not session.called and not output.native and "MCP issues detected" in stderr:
            return Fault(kind="server_not_connected", detail=stderr)
        if session.unapproved and not output.native:  # native calls of our server need no approval
            return Fault(kind="approval_needed", detail=session.unapproved)
        with suppress(*ODD):
            if session.result is None:
                return cut_off(output)
            if session.result["status"] == "error":
                message = str(session.result["error"]["message"])
                if "API Error" in message and not overflowed(message):
                    return endpoint_fault(message)
        return None


def imports(text: str) -> bool:
    """Return whether the program would take a part of its context file for the name of another file."""
    return re.search(r"(^|\s)@[./A-Za-z]", text) is not None


def prompt(request: LaunchRequest) -> str:
    text = request.prompt
    if imports(request.system):
        text = f"{request.system}\n\n{text}"
    # It takes a prompt that starts with a slash for a command, and removes quotes around one.
    return f"\n{text}" if text.startswith(("/", '"', "'")) else text


def project_settings(request: LaunchRequest) -> dict[str, Any]:
    """Return the settings that override the user's own settings.json."""
    document = server_entry(request)
    document["mcpServers"][request.server.name]["trust"] = True  # its calls need no approval
    if request.tools == "mcp-only":
        document["tools"] = {"exclude": list(BUILTIN)}
    general: dict[str, Any] = {"enableAutoUpdate": False}
    if (retries := whole_number(request.options, "max_retries")) is not None:
        general["maxAttempts"] = retries + 1
    if request.base_url:
        document["security"] = {"auth": {"selectedType": "gemini-api-key"}}
    return {**document, "general": general}


def server_entry(request: LaunchRequest) -> dict[str, Any]:
    document = mcp_servers(request.server)
    document["mcpServers"][request.server.name]["timeout"] = 3_600_000
    return document


def auth_type(env: Mapping[str, str]) -> str:
    """Return the login to use: a Google Cloud key works with another endpoint than a Gemini key."""
    known = {"GEMINI_API_KEY": "gemini-api-key", "GOOGLE_API_KEY": "vertex-ai"}
    return next((kind for name, kind in known.items() if name in env), "oauth-personal")


def settings(request: LaunchRequest, env: Mapping[str, str]) -> dict[str, Any]:
    """Return the content of settings.json. Times are in milliseconds."""
    retries = whole_number(request.options, "max_retries")
    return {
        **server_entry(request),
        "general": {
            "enableAutoUpdate": False,
            "plan": {"enabled": False},
            **({} if retries is None else {"maxAttempts": retries + 1}),
        },
        "security": {
            "auth": {"selectedType": auth_type(env)},
            "environmentVariableRedaction": {"enabled": True, "blocked": list(LOGIN)},
            "folderTrust": {"enabled": False},
        },
        "context": {"memoryBoundaryMarkers": []},  # read nothing from the folders above
        "advanced": {"ignoreLocalEnv": True},
        "privacy": {"usageStatisticsEnabled": False},
        "tools": {"sandbox": False},
    }


def policy(request: LaunchRequest) -> str:
    """Return the rules that offer and allow tools, so that none asks for approval."""
    if request.tools == "all":
        web = json.dumps(WEB)
        return rule('"*"', "allow", 100, "allowRedirection = true\n") + rule(web, "deny", 200)
    server = f"mcpName = {json.dumps(request.server.name)}\n"
    return rule('"*"', "deny", 100) + rule('"*"', "allow", 200, server)


def rule(tools: str, decision: str, priority: int, more: str = "") -> str:
    return f'[[rule]]\ntoolName = {tools}\ndecision = "{decision}"\npriority = {priority}\n{more}\n'


def cut_off(output: AgentOutput) -> Fault | None:
    """Return a fault if it was ended while it retried a request: stdout is older than stderr."""
    with suppress(OSError):
        if output.stderr.stat().st_mtime_ns < output.stdout.stat().st_mtime_ns:
            return None
    failed = RETRYING.findall(tail(output.stderr))
    return (
        Fault(kind="endpoint_error", detail=f"ended while it tried again: {failed[-1]}") if failed else None
    )
