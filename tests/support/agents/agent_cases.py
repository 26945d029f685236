"""The particulars of each real agent that the conformance suite needs: programs, wordings, built-in tools."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.agents.agent_attempt import Attempt
from tests.support.agents.real_agents import REAL_AGENTS, RealAgent
from tests.support.model_endpoint.fault import Fault
from tests.support.model_endpoint.script import ScriptedCall, Step

KEY = "dummy-key-0123456789"
"""The only key that the endpoint accepts."""

PATCH = "*** Begin Patch\n*** Add File: patched\n+hello\n*** End Patch"


@dataclass(frozen=True)
class AgentCase:
    name: str
    program: str
    package: str
    """Its npm package."""
    model: str | None
    """The model that its transcript names after a run with `scripted`."""
    shell: tuple[ScriptedCall, ...]
    """Calls of its own tools that write `hello` to each of `files`."""
    full_context: Fault
    """An endpoint's error for a conversation that is too long, in the form that this agent knows best."""
    no_server: str
    """Part of the fault's detail if the server does not start."""
    no_login: str
    """The variables that it names if there is no login."""
    verbatim: bool = True
    """Its transcript has a tool's text as the server sent it, without the structured result."""
    files: tuple[str, ...] = ("made",)
    web: ScriptedCall | None = None
    """A call of a web tool, which is never allowed."""
    all_tools_model: str = "scripted"
    offered: str | None = None
    """Prefix of all tools that it offers the model with `--tools mcp-only`; None if it keeps others."""
    login_variable: str | None = None
    """Without this variable, it starts and reports that its login is missing."""
    user_endpoint: tuple[str, str] | None = None
    """The user's variables for a key and for an endpoint."""
    user_model: str | None = None
    """The user's variable for a model."""
    ask_first: Callable[[Path], None] | None = None
    """Changes the configuration in HOME so that a call of `add` needs approval."""
    refused_settings: tuple[Callable[[Path], None], str] | None = None
    """Makes the configuration in HOME invalid; part of the fault's detail."""
    own_ends: tuple[Step, ...] = ()
    """Turns that its model ends early, which it reports as an error of the endpoint."""
    retrying: Callable[[Attempt], bool] | None = None
    """Returns whether it is about to repeat a failed request."""
    asked_prompt: Callable[[Mapping[str, Any]], str] | None = None
    """Returns the prompt in the body of its first request."""

    @property
    def real(self) -> RealAgent:
        return REAL_AGENTS[self.name]


def replace_in(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def codex_asks_first(home: Path) -> None:
    setting = '"default_tools_approval_mode" = '
    replace_in(home / ".codex" / "config.toml", f'{setting}"approve"', f'{setting}"prompt"')


def codex_unknown_setting(home: Path) -> None:
    config = home / ".codex" / "config.toml"
    config.write_text(f"no_such_setting = 1\n{config.read_text()}")


def gemini_asks_first(home: Path) -> None:
    replace_in(home / ".gemini" / "policies" / "episode.toml", '"allow"', '"ask_user"')


def gemini_broken_settings(home: Path) -> None:
    (home / ".gemini" / "settings.json").write_text("{no")


def qwen_asks_first(home: Path) -> None:
    path = home / ".qwen" / "settings.json"
    config = json.loads(path.read_text())
    config["permissions"]["ask"] = ["mcp__desk__add"]
    path.write_text(json.dumps(config))


def opencode_asks_first(home: Path) -> None:
    path = home / "opencode.json"
    config = json.loads(path.read_text())
    assert config["permission"]["desk_*"] == "allow"
    config["permission"]["desk_*"] = "ask"
    path.write_text(json.dumps(config))


def qwen_retries(work: Attempt) -> bool:
    logs = work.home.glob(".qwen/projects/*/chats/*.jsonl")
    return any('"qwen-code.api_error"' in log.read_text(errors="replace") for log in logs)


FULL_OF_GEMINI = "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576)."
FULL_OF_QWEN = "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000."

AGENT_CASES = {
    case.name: case
    for case in (
        AgentCase(
            "claude-code",
            "claude",
            "@anthropic-ai/claude-code",
            "scripted",
            shell=(ScriptedCall("Bash", {"command": "echo hello > made", "description": "make a file"}),),
            web=ScriptedCall("WebFetch", {"url": "http://127.0.0.1:9/", "prompt": "look"}),
            verbatim=False,
            all_tools_model="claude-sonnet-4-5",
            offered="mcp__desk__",
            full_context=Fault(
                status=400, message="prompt is too long: 210000 tokens > 200000 maximum", after=1
            ),
            no_server="desk: failed",
            no_login="ANTHROPIC_API_KEY or CLAUDE_CODE_OAUTH_TOKEN",
            login_variable="ANTHROPIC_API_KEY",
            own_ends=(
                Step(stop="refusal"),
                Step(text="Half of", stop="max_tokens"),
                Step(text="Half of", stop="model_context_window_exceeded"),
            ),
            user_endpoint=("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
            retrying=lambda work: '"api_retry"' in work.output.stdout.read_text(),
        ),
        AgentCase(
            "codex",
            "codex",
            "@openai/codex",
            "scripted",
            shell=(
                ScriptedCall("exec_command", {"cmd": "echo hello > made"}),
                ScriptedCall("apply_patch", PATCH),
            ),
            files=("made", "patched"),
            all_tools_model="gpt-5.5",
            full_context=Fault(status=400, code="context_length_exceeded", after=1),
            no_server="desk: No such file",
            no_login="CODEX_API_KEY or OPENAI_API_KEY",
            own_ends=(
                Step(text="Half of", stop="max_output_tokens"),
                Step(text="Half of", stop="content_filter"),
            ),
            user_endpoint=("CODEX_API_KEY", "OPENAI_BASE_URL"),
            ask_first=codex_asks_first,
            refused_settings=(codex_unknown_setting, "no_such_setting"),
        ),
        AgentCase(
            "gemini",
            "gemini",
            "@google/gemini-cli",
            "scripted",
            shell=(
                ScriptedCall("run_shell_command", {"command": "echo hello > made && echo [$GEMINI_API_KEY]"}),
            ),
            web=ScriptedCall("google_web_search", {"query": "sums"}),
            offered="mcp_desk_",
            full_context=Fault(status=400, message=FULL_OF_GEMINI, after=1),
            no_server="",
            no_login="GEMINI_API_KEY or GOOGLE_API_KEY",
            login_variable="GEMINI_API_KEY",
            user_endpoint=("GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL"),
            ask_first=gemini_asks_first,
            refused_settings=(gemini_broken_settings, ""),
            retrying=lambda work: "Retrying" in work.output.stderr.read_text(),
            asked_prompt=lambda body: body["contents"][0]["parts"][-1]["text"],
        ),
        AgentCase(
            "qwen-code",
            "qwen",
            "@qwen-code/qwen-code",
            "scripted",
            shell=(
                ScriptedCall(
                    "run_shell_command",
                    {"command": "echo hello > made", "description": "make a file", "is_background": False},
                ),
            ),
            web=ScriptedCall("web_fetch", {"url": "http://127.0.0.1:9/", "prompt": "look"}),
            offered="mcp__desk__",
            full_context=Fault(status=400, code="context_length_exceeded", message=FULL_OF_QWEN, after=1),
            no_server="desk: disconnected",
            no_login="OPENAI_API_KEY",
            login_variable="OPENAI_API_KEY",
            own_ends=(Step(),),
            user_endpoint=("OPENAI_API_KEY", "OPENAI_BASE_URL"),
            verbatim=False,
            user_model="OPENAI_MODEL",
            ask_first=qwen_asks_first,
            retrying=qwen_retries,
            asked_prompt=lambda body: body["messages"][-1]["content"][-1]["text"],
        ),
        AgentCase(
            "opencode",
            "opencode",
            "opencode-ai",
            None,
            shell=(ScriptedCall("bash", {"command": "echo hello > made", "description": "Say hello"}),),
            offered="desk_",
            own_ends=(Step(stop="content_filter"),),
            full_context=Fault(status=400, code="context_length_exceeded", after=1),
            no_server="",
            no_login="set ANTHROPIC_API_KEY or OPENCODE_AUTH_CONTENT",
            ask_first=opencode_asks_first,
        ),
    )
}
