"""opencode, by `opencode run`.

Written for 1.18.33. Its configuration: https://opencode.ai/docs/config
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mcp_bench.plugins.contracts import (
    AgentOutput,
    Capabilities,
    Installation,
    Launch,
    LaunchRequest,
    McpServer,
    Transcript,
)
from mcp_bench.plugins.executable import find_executable
from mcp_bench.plugins.json_lines import tail
from mcp_bench.plugins.login import PLACEHOLDER, login
from mcp_bench.plugins.needs import LoginFile, Needs
from mcp_bench.plugins.opencode_session import fault, prefix, read_session
from mcp_bench.plugins.turns import final_answer
from mcp_bench.servers.errors import WrongUseError

LOGIN = {
    "anthropic": ("ANTHROPIC_API_KEY",),
    "google": ("GOOGLE_GENERATIVE_AI_API_KEY", "GEMINI_API_KEY"),
    "groq": ("GROQ_API_KEY",),
    "mistral": ("MISTRAL_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
    "opencode": ("OPENCODE_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY",),
    "xai": ("XAI_API_KEY",),
}
"""The variables that log in to a provider, the first part of a model's name."""
ANY_LOGIN = "OPENCODE_AUTH_CONTENT"
"""Holds what `opencode auth login` writes down, for whatever provider."""

ENDPOINT = "endpoint"
"""Name of the provider that stands for an endpoint of the user's own."""
KEY = "MCP_BENCH_ENDPOINT_KEY"

FIXED = {
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_CLAUDE_CODE": "1",
    "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
    "OPENCODE_DISABLE_EXTERNAL_SKILLS": "1",
    "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "OPENCODE_DISABLE_PROJECT_CONFIG": "1",
    "OPENCODE_DISABLE_SHARE": "1",
}
MINUTE = 60_000
"""Milliseconds; a limit for the server to start and for its tools to be listed."""


class OpenCode:
    name = "opencode"
    summary = "opencode, the open-source terminal agent."
    capabilities = Capabilities(reports_usage=True, reports_cost=True, reports_reasoning=True, http=True)
    needs = Needs(
        tested="1.18.33",
        login=(*(name for names in LOGIN.values() for name in names), ANY_LOGIN),
        login_files=(LoginFile(".local/share/opencode/auth.json"),),
        log_in="opencode auth login",
    )
    options: Mapping[str, str] = {"effort": "variant of the model, such as its reasoning effort (high, ...)"}

    def find(self, environ: Mapping[str, str]) -> Installation:
        return find_executable("opencode", environ, "npm install -g opencode-ai")

    def prepare(self, request: LaunchRequest) -> Launch:
        """Raises:
        LoginMissingError: there is no login.
        WrongUseError: an endpoint is named without a model.
        """
        env = configure(request)
        # With a title of its own it asks the model for none.
        argv = ["run", "--pure", "--format=json", "--thinking", "--title=task"]
        argv += ["--print-logs", "--log-level=WARN"]
        argv += [f"--variant={effort}"] if (effort := request.options.get("effort")) else []
        return Launch((request.installation.executable, *argv), env, stdin=request.prompt.encode())

    def read(self, output: AgentOutput, server: McpServer) -> Transcript:
        session = read_session(output.stdout, server)
        messages = session.turns.messages()
        return Transcript(
            messages=messages,
            answer=None if session.mid_step else final_answer(messages),
            usage=session.usage,
            model=session.model,
            fault=fault(session, tail(output.stderr), server),
        )


def configure(request: LaunchRequest, *, with_server: bool = True) -> dict[str, str]:
    """Write the configuration into the private HOME; return the variables that go with it.

    Raises:
        LoginMissingError: there is no login.
        WrongUseError: an endpoint is named without a model.
    """
    settings = configuration(request)
    if not with_server:
        del settings["mcp"]
    path = request.home / "opencode.json"
    path.write_text(json.dumps(settings), encoding="utf-8")
    no_installation(request.home / ".config" / "opencode")
    if request.base_url:
        key = request.environ.get("OPENAI_API_KEY") or PLACEHOLDER
        return {**FIXED, "OPENCODE_CONFIG": str(path), KEY: key}
    return {**FIXED, "OPENCODE_CONFIG": str(path), **logins(request)}


def configuration(request: LaunchRequest) -> dict[str, Any]:
    """Return what goes into opencode.json."""
    server = request.server
    entry: dict[str, Any] = {"type": "local", "command": list(server.command)}
    if server.url is not None:
        entry = {"type": "remote", "url": server.url, "oauth": False}
    own = {f"{prefix(server)}*": "allow"}
    web = {"webfetch": "deny", "websearch": "deny", "question": "deny"}
    config: dict[str, Any] = {
        "autoupdate": False,
        "share": "disabled",
        "agent": {"title": {"disable": True}},
        # The last rule that fits counts; what is denied for good is not even offered to the model.
        "permission": {"*": "deny", **own} if request.tools == "mcp-only" else {"*": "allow", **web, **own},
        "mcp": {server.name: {**entry, "enabled": True, "timeout": MINUTE}},
    }
    model = request.model
    if url := request.base_url:
        if model is None:
            raise WrongUseError("opencode needs to be told which model to ask the endpoint for: --model")
        config["enabled_providers"] = [ENDPOINT]
        config["provider"] = {
            ENDPOINT: {
                "npm": "@ai-sdk/openai-compatible",  # comes with it
                "name": ENDPOINT,
                "options": {"baseURL": url, "apiKey": f"{{env:{KEY}}}"},
                "models": {model: {"name": model, "tool_call": True, "reasoning": True}},
            }
        }
        model = f"{ENDPOINT}/{model}"
    if model:
        config |= {"model": model, "small_model": model}
    return config


def no_installation(folder: Path) -> None:
    """Have it believe that the package for writing plugins is there: it would install it on each start."""
    (folder / "node_modules").mkdir(parents=True)
    lock = {"packages": {"": {"dependencies": {"@opencode-ai/plugin": "*"}}}}
    (folder / "package-lock.json").write_text(json.dumps(lock))


def logins(request: LaunchRequest) -> dict[str, str]:
    """Return the variables that log in to the model's provider, or to all where no model is named."""
    provider = (request.model or "").partition("/")[0]
    known = LOGIN.get(provider) or tuple(name for names in LOGIN.values() for name in names)
    names = (*known, ANY_LOGIN)
    if provider != "opencode":  # some of its own models are free
        login("opencode", request.environ, names)
    return {name: value for name in names if (value := request.environ.get(name))}
