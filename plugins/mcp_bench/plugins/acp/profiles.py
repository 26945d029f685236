"""The agents that speak ACP and need more than their command: each in its own way, as tried or as documented.

An agent without a profile gets its server by `session/new`, its model from what the session offers, and
the variables that the user names.
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
from mcp_bench.plugins.acp.session import Session, plus
from mcp_bench.plugins.claude_code import agent as claude_code
from mcp_bench.plugins.claude_code.session import model_names
from mcp_bench.plugins.codex import agent as codex
from mcp_bench.plugins.codex.session import read_session as read_codex_session
from mcp_bench.plugins.contracts import AgentOutput, Capabilities, LaunchRequest, McpServer
from mcp_bench.plugins.devin.login import lend_login
from mcp_bench.plugins.gemini import agent as gemini
from mcp_bench.plugins.json_lines import ODD, json_lines, tail
from mcp_bench.plugins.login import PLACEHOLDER
from mcp_bench.plugins.mcp_config import mcp_servers
from mcp_bench.plugins.needs import Needs
from mcp_bench.plugins.opencode import agent as opencode
from mcp_bench.plugins.opencode.session import failed_since, stored_time, stored_usage
from mcp_bench.plugins.qwen_code import agent as qwen_code
from mcp_bench.plugins.qwen_code import session as qwen_session
from mcp_bench.recorder.trajectory import Usage
from mcp_bench.servers.errors import WrongUseError

KEEPS_TOOLS = Capabilities(builtin_tools_off=False, reports_usage=True, reports_reasoning=True, http=True)
OWN_HOME = replace(KEEPS_TOOLS, native=True)
"""Those that take the server, and the model, by the session: their configuration is nobody's business."""


def profile_of(command: tuple[str, ...]) -> Profile:
    """Return the profile of the program that a command starts, by itself or through npx and its like."""
    names = [re.sub(r"(?<=.)@.*$", "", PurePath(word).name) for word in command]
    for name in names:
        if name in PROFILES:
            return PROFILES[name]
    return Profile(re.sub(r"[^\w.-]", "-", names[0]), open_any, capabilities=OWN_HOME)


def open_any(request: LaunchRequest) -> Opening:
    """Raises:
    WrongUseError: nobody knows how to point it at another endpoint.
    """
    no_endpoint(request)
    return Opening(model_by_session=request.model is not None)


def no_endpoint(request: LaunchRequest) -> None:
    if request.base_url:
        raise WrongUseError(
            f"nobody told how to point {request.options.get('command', 'this agent')!r} at another endpoint: "
            "leave out --base-url, or hand in the variables that it reads by --agent-option login=NAME,..."
        )


def open_claude(request: LaunchRequest) -> Opening:
    env, lent = claude_code.environment(request)
    if request.model:
        env["ANTHROPIC_MODEL"] = request.model
    if program := request.environ.get("CLAUDE_CODE_EXECUTABLE"):
        env["CLAUDE_CODE_EXECUTABLE"] = program
    options: dict[str, Any] = {"promptSuggestions": False, "settingSources": [], "strictMcpConfig": True}
    if request.tools == "mcp-only":
        options |= {"tools": [], "allowedTools": list(model_names(request.server))}
    return Opening(env, meta={"claudeCode": {"options": options}}, user_login=lent)


def read_claude(session: Session, output: AgentOutput, server: McpServer) -> None:
    """Count by model, work on the side included: it asks for a title for every session."""
    models: dict[str, Usage] = {}
    usage: Usage | None = None
    for stop in session.stops:
        with suppress(*ODD):
            for row in stop["_meta"]["quota"]["model_usage"]:
                told = row["token_count"]
                count = {**told, "cachedReadTokens": told["cachedInputTokens"]}
                name = str(row["model"])
                models[name] = plus(models.get(name, Usage()), count)
                usage = plus(usage or Usage(), count)
    if usage is not None:
        session.usage = usage
        session.model = max(models, key=lambda name: models[name].input_tokens or 0)


def open_codex(request: LaunchRequest) -> Opening:
    codex.write_configuration(request)
    found, lent = codex.access(request)
    env = {**found, "NO_BROWSER": "1"}
    method = None
    if codex.endpoint(request):
        env["MODEL_PROVIDER"] = "endpoint"
    elif lent is None:
        method = "api-key"
    if program := request.environ.get("CODEX_PATH"):
        env["CODEX_PATH"] = program
    env["INITIAL_AGENT_MODE"] = "read-only" if request.tools == "mcp-only" else "agent"
    return Opening(env, server_by_session=False, login=method, user_login=lent)


def read_codex(session: Session, output: AgentOutput, server: McpServer) -> None:
    """Take the story from its own file, which tells it more fully: the session is one of its threads."""
    started = {"type": "thread.started", "thread_id": session.id}
    told = read_codex_session(output.home / ".codex", [started], server)
    if told.model is not None:
        session.turns, session.usage, session.model = told.turns, told.usage, told.model


def open_gemini(request: LaunchRequest) -> Opening:
    env, lent = acp_gemini.configure(request)
    arguments = (f"--model={request.model}",) if request.model else ()
    return Opening(env, arguments, server_by_session=False, user_login=lent)


def read_gemini(session: Session, output: AgentOutput, server: McpServer) -> None:
    acp_gemini.add_log(session, output.home, server)


def open_opencode(request: LaunchRequest) -> Opening:
    """A session begins with the lowest effort that the model has, unless told otherwise."""
    env, lent = opencode.configure(request, with_server=False)
    logs = ("--print-logs", "--log-level=WARN")
    return Opening(env, logs, choices={"effort": "default"}, user_login=lent)


def read_opencode(session: Session, output: AgentOutput, server: McpServer) -> None:
    """Count from its database: in the protocol it tells of the last answer only.

    Of a failed request it tells in its log alone, and tries again for as long as it is left to.
    """
    folder = output.home / opencode.FOLDER
    session.usage = stored_usage(folder, session.id)
    if not session.stops and session.failed is None:
        session.trouble = failed_since(stored_time(folder, session.id), tail(output.stderr))
    session.model = (session.model or "").removeprefix(f"{opencode.ENDPOINT}/") or None


def open_qwen(request: LaunchRequest) -> Opening:
    """A server that comes by the session is not waited for; one of its configuration is asked for sooner."""
    (request.home / ".qwen").mkdir()
    # Over ACP it asks the model what the user might say next, and keeps no count of that.
    settings = json.dumps({**qwen_code.settings(request), "ui": {"enableFollowupSuggestions": False}})
    (request.home / ".qwen" / "settings.json").write_text(settings, encoding="utf-8")
    mode = "default" if request.tools == "mcp-only" else "yolo"
    arguments = [f"--approval-mode={mode}", f"--allowed-tools=mcp__{request.server.name}"]
    arguments += [f"--model={request.model}"] if request.model else []
    return Opening(qwen_code.environment(request), tuple(arguments), server_by_session=False, settle=4)


def read_qwen(session: Session, output: AgentOutput, server: McpServer) -> None:
    """Take the story from its own file, which has every request, work on the side included."""
    told = qwen_session.Session()
    names, prefix = qwen_session.model_names(server), f"mcp__{server.name}__"
    if re.fullmatch(r"[0-9a-f-]{36}", session.id or ""):
        for path in sorted((output.home / ".qwen" / "projects").glob(f"*/chats/{session.id}.jsonl")):
            for line in json_lines(path):
                with suppress(*ODD):
                    qwen_session.add(told, line, names, prefix)
    if told.model is not None:
        session.turns, session.usage, session.model = told.turns, told.usage, told.model


def open_kimi(request: LaunchRequest) -> Opening:
    """It takes no endpoint from the command line; its own variables are passed on as they are."""
    no_endpoint(request)
    env = {name: value for name, value in request.environ.items() if name.startswith("KIMI_MODEL_") and value}
    return Opening({**env, "KIMI_DISABLE_TELEMETRY": "1"}, model_by_session=request.model is not None)


def open_copilot(request: LaunchRequest) -> Opening:
    """It drops servers on stdio that come by the session without a word, so ours is on its command line."""
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
    lent = None if request.native else lend_login(request)
    return Opening(model_by_session=request.model is not None, user_login=lent)


PROFILES = {
    profile.name: profile
    for profile in (
        Profile(
            "claude-agent-acp",
            open_claude,
            install="npm install -g @agentclientprotocol/claude-agent-acp",
            read=read_claude,
            needs=claude_code.ClaudeCode.needs,
        ),
        Profile(
            "codex-acp",
            open_codex,
            install="npm install -g @agentclientprotocol/codex-acp",
            read=read_codex,
            needs=codex.Codex.needs,
        ),
        Profile(
            "gemini",
            open_gemini,
            install="npm install -g @google/gemini-cli",
            read=read_gemini,
            needs=gemini.Gemini.needs,
        ),
        Profile(
            "opencode",
            open_opencode,
            install="npm install -g opencode-ai",
            read=read_opencode,
            needs=opencode.OpenCode.needs,
        ),
        Profile(
            "qwen",
            open_qwen,
            install="npm install -g @qwen-code/qwen-code",
            read=read_qwen,
            needs=qwen_code.QwenCode.needs,
        ),
        # As their documentation has it, not tried here:
        Profile("copilot", open_copilot, install="npm install -g @github/copilot"),
        Profile("devin", open_devin, capabilities=OWN_HOME, needs=Needs(own_endpoint=False)),
        Profile("kimi", open_kimi, capabilities=OWN_HOME, needs=Needs(own_endpoint=False)),
    )
}
