"""Google's Gemini CLI, by its headless mode.

Written for 0.61. Its configuration: https://geminicli.com/docs/reference/configuration
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

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
from mcp_bench.plugins.gemini.session import Session, read_session
from mcp_bench.plugins.json_lines import ODD, tail
from mcp_bench.plugins.login import PLACEHOLDER, LoginFile, login, native_login
from mcp_bench.plugins.mcp_config import mcp_servers
from mcp_bench.plugins.needs import Needs
from mcp_bench.plugins.options import whole_number
from mcp_bench.plugins.turns import final_answer

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
"""Written through a link. The program itself logs in, where it is started by hand."""
WITH_FILE = ("GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_PROJECT_ID")
"""A login of a company's account belongs to a project."""

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
    *("glob", "grep_search", "invoke_agent", "list_background_processes", "list_directory"),
    *(
        "read_file",
        "read_background_output",
        "read_many_files",
        "replace",
        "run_shell_command",
        "update_topic",
    ),
    *("write_file", "write_todos"),
    *(f"tracker_{action}" for action in ("add_dependency", "create_task", "get_task", "list_tasks")),
    *("tracker_update_task", "tracker_visualize"),
)
"""Its own tools. A list of those that stay would take away the tools of every server, too."""

ARGUMENT_BYTES = 100_000
"""A longer prompt than this goes to stdin, which the program gives up on if it is slow: Linux has a limit of
128 KiB for an argument."""

RETRYING = re.compile(r"^Attempt \d+ failed.*", re.MULTILINE)


class Gemini:
    name = "gemini"
    summary = "Google's Gemini CLI."
    capabilities = Capabilities(reports_usage=True, reports_reasoning=True, http=True, native=True)
    needs = Needs(
        tested="0.61.0",
        node=20,
        login=LOGIN,
        bound=("GOOGLE_API_KEY",),
        login_files=(FILE,),
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
        argv = [request.installation.executable, "--output-format=stream-json"]
        env, lent = configure(request)
        if request.native and request.tools == "all":
            argv.append("--approval-mode=yolo")
        argv += [f"--model={request.model}"] if request.model else []
        # A slash at the start would make it a command, and quotes around it would be taken away.
        prompt = f"\n{request.prompt}" if request.prompt.startswith(("/", '"', "'")) else request.prompt
        if len(prompt.encode()) > ARGUMENT_BYTES:
            return Launch(tuple(argv), env, stdin=prompt.encode(), login=lent)
        return Launch((*argv, f"--prompt={prompt}"), env, login=lent)

    def read(self, output: AgentOutput, server: McpServer) -> Transcript:
        session = read_session(output.stdout, output.folder(".gemini"), server)
        messages = session.turns.messages()
        return Transcript(
            messages=messages,
            answer=final_answer(messages),
            usage=session.usage,
            model=session.model,
            fault=fault(session, output),
        )


def configure(request: LaunchRequest, more_rules: str = "") -> tuple[dict[str, str], LentLogin | None]:
    """Write its configuration, the server included; return the variables that go with it.

    In the user's home that is the configuration of a project, which the working directory is.

    Raises:
        LoginMissingError: there is no login.
        WrongUseError: an option's value makes no sense.
    """
    env, lent = environment(request)
    folder = (request.workdir if request.native else request.home) / ".gemini"
    folder.mkdir(exist_ok=True)
    told = project_settings(request) if request.native else settings(request, env)
    (folder / "settings.json").write_text(json.dumps(told), encoding="utf-8")
    if not request.native:
        (folder / "policies").mkdir()
        rules = policy(request) + more_rules
        (folder / "policies" / "episode.toml").write_text(rules, encoding="utf-8")
    return env, lent


def environment(request: LaunchRequest) -> tuple[dict[str, str], LentLogin | None]:
    """Return the login, where requests go, and what keeps it from starting itself a second time."""
    environ, lent = request.environ, None
    env = {"GEMINI_CLI_NO_RELAUNCH": "true"}
    if request.native:  # else the settings of a project are left out; by --skip-trust they come too late
        env["GEMINI_CLI_TRUST_WORKSPACE"] = "true"
    if url := request.base_url or (None if request.native else environ.get("GOOGLE_GEMINI_BASE_URL")):
        env["GOOGLE_GEMINI_BASE_URL"] = url
        env["GEMINI_API_KEY"] = next(filter(None, map(environ.get, LOGIN)), PLACEHOLDER)
    elif request.native:
        lent = native_login(environ, LOGIN, FILE)
    elif found := login("gemini", environ, LOGIN, FILE):
        env[found[0]] = found[1]
    else:
        env |= {name: value for name in WITH_FILE if (value := environ.get(name))}
        lent = FILE.lend(environ, request.home / ".gemini")
    return env, lent


def project_settings(request: LaunchRequest) -> dict[str, Any]:
    """Return what is laid over the user's own settings.json."""
    document = server_entry(request)
    document["mcpServers"][request.server.name]["trust"] = True  # its calls need no leave
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
    """Return which login it is to use: a key for Google Cloud is for another endpoint than one for Gemini."""
    known = {"GEMINI_API_KEY": "gemini-api-key", "GOOGLE_API_KEY": "vertex-ai"}
    return next((kind for name, kind in known.items() if name in env), "oauth-personal")


def settings(request: LaunchRequest, env: Mapping[str, str]) -> dict[str, Any]:
    """Return what goes into settings.json. Times are in milliseconds."""
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
    if not session.called and not output.native and "MCP issues detected" in stderr:
        return Fault(kind="server_not_connected", detail=stderr)
    if session.unapproved and not output.native:  # there, calls of ours need no leave
        return Fault(kind="approval_needed", detail=session.unapproved)
    with suppress(*ODD):
        if session.result is None:
            return cut_off(output)
        if session.result["status"] == "error":
            message = str(session.result["error"]["message"])
            if "API Error" in message and not overflowed(message):
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
