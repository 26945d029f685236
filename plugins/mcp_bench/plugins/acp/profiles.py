"""The agents that speak ACP and need more than their command, as tested or as documented.

An agent without a profile gets its server by `session/new`, its model from those that the session offers,
and the variables that the user names.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import replace
from pathlib import PurePath
from typing import Any

from mcp_bench.plugins.acp import gemini as acp_gemini
from mcp_bench.plugins.acp.profile import Opening, Profile
from mcp_bench.plugins.acp.session import AcpSession, plus
from mcp_bench.plugins.claude_code.agent import ClaudeCode
from mcp_bench.plugins.claude_code.session import model_names
from mcp_bench.plugins.cli_agent import mcp_servers
from mcp_bench.plugins.codex.agent import Codex
from mcp_bench.plugins.codex.session import read_session as read_codex_session
from mcp_bench.plugins.contracts import AgentOutput, Capabilities, LaunchRequest, McpServer
from mcp_bench.plugins.devin.agent import Devin
from mcp_bench.plugins.gemini.agent import Gemini
from mcp_bench.plugins.needs import PLACEHOLDER, Needs
from mcp_bench.plugins.opencode import agent as opencode
from mcp_bench.plugins.opencode.session import failed_since, stored_time, stored_usage
from mcp_bench.plugins.output import ODD, Session
from mcp_bench.plugins.qwen_code import agent as qwen_code
from mcp_bench.plugins.qwen_code import session as qwen_session
from mcp_bench.plugins.text_files import tail
from mcp_bench.recorder.trajectory import Usage
from mcp_bench.servers.errors import WrongUseError

KEEPS_TOOLS = Capabilities(builtin_tools_off=False, reports_usage=True, reports_reasoning=True, http=True)
OWN_HOME = replace(KEEPS_TOOLS, native=True)
"""For agents that take server and model by the session: their configuration stays untouched."""
LAUNCHERS = {"bun", "bunx", "dlx", "env", "exec", "node", "npm", "npx", "pnpm", "run", "uvx", "yarn"}
"""Programs that start another one, and their subcommands for that."""
TAKE_A_WORD = ("-p", "--package")
"""Options of launchers."""
OWN_ENDPOINT = Needs(own_endpoint=False)
"""For agents whose endpoint only their own variables or configuration name (`no_endpoint`)."""


def profile_of(command: tuple[str, ...]) -> Profile:
    """Return the profile of the program that a command starts, directly or through npx and the like."""
    if (name := named(program_of(command))) in PROFILES:
        return PROFILES[name]
    name = re.sub(r"[^\w.-]", "-", named(command[0]))
    return Profile(name, open_any, capabilities=OWN_HOME, needs=OWN_ENDPOINT)


def program_of(command: tuple[str, ...]) -> str:
    """Return the program that a command starts. What follows it is its own, such as `--provider copilot`."""
    words = iter(command)
    for word in words:
        if word in TAKE_A_WORD:
            next(words, None)
        elif named(word) not in LAUNCHERS and not word.startswith("-") and "=" not in word:
            return word
    return command[0]


def named(word: str) -> str:
    """Return the name of a program or of a package, without its folder and its version."""
    return re.sub(r"(?<=.)@.*$", "", PurePath(word).name)


def open_any(request: LaunchRequest) -> Opening:
    """Open an agent without a profile.

    Raises:
        WrongUseError: an endpoint is named: how to set it is unknown.
    """
    no_endpoint(request)
    return Opening(model_by_session=request.model is not None)


def no_endpoint(request: LaunchRequest) -> None:
    if request.base_url:
        raise WrongUseError(
            f"cannot point {request.options.get('command', 'this agent')!r} at another endpoint: leave out "
            "--base-url, or pass the variables that it reads with --agent-option login=NAME,..."
        )


def open_claude(request: LaunchRequest) -> Opening:
    env, lent = ClaudeCode().environment(request)
    if request.model:
        env["ANTHROPIC_MODEL"] = request.model
    if program := request.environ.get("CLAUDE_CODE_EXECUTABLE"):
        env["CLAUDE_CODE_EXECUTABLE"] = program
    options: dict[str, Any] = {"promptSuggestions": False, "settingSources": [], "strictMcpConfig": True}
    if request.tools == "mcp-only":
        options |= {"tools": [], "allowedTools": list(model_names(request.server))}
    return Opening(env, meta={"claudeCode": {"options": options}}, user_login=lent)


def read_claude(session: AcpSession, output: AgentOutput, server: McpServer) -> None:
    """Count by model, side work included: it asks for a title for every session."""
    models: dict[str, Usage] = {}
    usage: Usage | None = None
    for stop in session.stops:
        with suppress(*ODD):
            for row in stop["_meta"]["quota"]["model_usage"]:
                tokens = row["token_count"]
                count = {**tokens, "cachedReadTokens": tokens["cachedInputTokens"]}
                name = str(row["model"])
                models[name] = plus(models.get(name, Usage()), count)
                usage = plus(usage or Usage(), count)
    if usage is not None:
        session.usage = usage
        session.model = max(models, key=lambda name: models[name].input_tokens or 0)


def open_codex(request: LaunchRequest) -> Opening:
    found, lent = Codex().environment(request)
    Codex().setup(request, found)
    env = {**found, "NO_BROWSER": "1"}
    method = None
    if Codex().endpoint(request):
        env["MODEL_PROVIDER"] = "endpoint"
    elif lent is None:
        method = "api-key"
    if program := request.environ.get("CODEX_PATH"):
        env["CODEX_PATH"] = program
    env["INITIAL_AGENT_MODE"] = "read-only" if request.tools == "mcp-only" else "agent"
    return Opening(env, server_by_session=False, login=method, user_login=lent)


def read_codex(session: AcpSession, output: AgentOutput, server: McpServer) -> None:
    """Take the conversation from its own file, which has more: the session is one of its threads."""
    started = {"type": "thread.started", "thread_id": session.id}
    take(session, read_codex_session(output.private.below(".codex"), [started], server))


def take(session: AcpSession, own: Session) -> None:
    """Use an agent's own account of the session, if it exists."""
    if own.model is not None:
        session.turns, session.usage, session.model = own.turns, own.usage, own.model


def open_gemini(request: LaunchRequest) -> Opening:
    env, lent = acp_gemini.configure(request)
    arguments = (f"--model={request.model}",) if request.model else ()
    return Opening(env, arguments, server_by_session=False, user_login=lent)


def read_gemini(session: AcpSession, output: AgentOutput, server: McpServer) -> None:
    acp_gemini.add_log(session, output.private.below(".gemini"), server)


def open_opencode(request: LaunchRequest) -> Opening:
    """Choose the effort: by itself, a session begins with the lowest one of the model."""
    env, lent = opencode.OpenCode().environment(request)
    opencode.OpenCode().setup(request, env, with_server=False)
    logs = ("--print-logs", "--log-level=WARN")
    return Opening(env, logs, choices={"effort": request.options.get("effort") or "default"}, user_login=lent)


def read_opencode(session: AcpSession, output: AgentOutput, server: McpServer) -> None:
    """Count from its database: in the protocol it only reports the last answer.

    It reports a failed request only in its log, and retries until it is stopped.
    """
    folder = output.private.below(opencode.FOLDER)
    session.usage = stored_usage(folder, session.id)
    if not session.stops and session.failed is None:
        session.trouble = failed_since(stored_time(folder, session.id), tail(output.stderr))
    session.model = (session.model or "").removeprefix(f"{opencode.ENDPOINT}/") or None


def open_qwen(request: LaunchRequest) -> Opening:
    """Put the server into its configuration: it does not wait for one that comes by the session."""
    (request.home / ".qwen").mkdir()
    # Over ACP it asks the model what the user might say next, and does not count that.
    settings = json.dumps({**qwen_code.settings(request), "ui": {"enableFollowupSuggestions": False}})
    (request.home / ".qwen" / "settings.json").write_text(settings, encoding="utf-8")
    mode = "default" if request.tools == "mcp-only" else "yolo"
    arguments = [f"--approval-mode={mode}", f"--allowed-tools=mcp__{request.server.name}"]
    arguments += [f"--model={request.model}"] if request.model else []
    env, lent = qwen_code.QwenCode().environment(request)
    return Opening(env, tuple(arguments), server_by_session=False, settle=4, user_login=lent)


def read_qwen(session: AcpSession, output: AgentOutput, server: McpServer) -> None:
    """Take the conversation from its own file, which has every request, side work included."""
    own = qwen_session.QwenSession()
    qwen_session.add_log(own, output.private.below(".qwen"), session.id, server)
    take(session, own)


def open_kimi(request: LaunchRequest) -> Opening:
    """Pass on its own variables unchanged: it takes no endpoint from the command line."""
    no_endpoint(request)
    env = {name: value for name, value in request.environ.items() if name.startswith("KIMI_MODEL_") and value}
    return Opening({**env, "KIMI_DISABLE_TELEMETRY": "1"}, model_by_session=request.model is not None)


def open_copilot(request: LaunchRequest) -> Opening:
    """Put the server on its command line: it silently drops stdio servers that come by the session."""
    names = ("COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN", "COPILOT_PROVIDER_API_KEY")
    env = {name: value for name in names if (value := request.environ.get(name))}
    if request.base_url:
        key = env.get("COPILOT_PROVIDER_API_KEY") or request.environ.get("OPENAI_API_KEY") or PLACEHOLDER
        env |= {"COPILOT_PROVIDER_BASE_URL": request.base_url, "COPILOT_PROVIDER_API_KEY": key}
    if request.model:
        env["COPILOT_MODEL"] = request.model
    document = mcp_servers(request.server)
    document["mcpServers"][request.server.name]["tools"] = list(request.server.tools) or ["*"]
    arguments = [f"--additional-mcp-config={json.dumps(document)}", "--disable-builtin-mcps"]
    if request.tools == "mcp-only" and request.server.tools:
        arguments += [f"--available-tools={request.server.name}-{tool}" for tool in request.server.tools]
    return Opening(env, tuple(arguments), server_by_session=False)


def open_devin(request: LaunchRequest) -> Opening:
    no_endpoint(request)
    lent = None if request.native else Devin().lend_login(request)[1]
    return Opening(model_by_session=request.model is not None, user_login=lent)


PROFILES = {
    profile.name: profile
    for profile in (
        Profile(
            "claude-agent-acp",
            open_claude,
            install="npm install -g @agentclientprotocol/claude-agent-acp",
            read=read_claude,
            needs=ClaudeCode.needs,
            options=("max_retries",),
        ),
        Profile(
            "codex-acp",
            open_codex,
            install="npm install -g @agentclientprotocol/codex-acp",
            read=read_codex,
            needs=Codex.needs,
            options=("effort", "max_retries"),
        ),
        Profile(
            "gemini",
            open_gemini,
            install=Gemini.install,
            read=read_gemini,
            needs=Gemini.needs,
            options=("max_retries",),
        ),
        Profile(
            "opencode",
            open_opencode,
            install=opencode.OpenCode.install,
            read=read_opencode,
            needs=opencode.OpenCode.needs,
            options=("effort",),
        ),
        Profile(
            "qwen",
            open_qwen,
            install=qwen_code.QwenCode.install,
            read=read_qwen,
            needs=qwen_code.QwenCode.needs,
            options=("max_retries",),
        ),
        Profile("copilot", open_copilot, install="npm install -g @github/copilot"),
        # from its documentation, not tested
        Profile("devin", open_devin, install=Devin.install, capabilities=OWN_HOME, needs=OWN_ENDPOINT),
        Profile(
            "kimi",
            open_kimi,
            install="npm install -g @moonshot-ai/kimi-code",
            capabilities=OWN_HOME,
            needs=OWN_ENDPOINT,
        ),
    )
}
