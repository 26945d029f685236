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
    LentLogin,
    McpServer,
    Transcript,
)
from mcp_bench.plugins.executable import find_executable
from mcp_bench.plugins.json_lines import tail
from mcp_bench.plugins.login import PLACEHOLDER, LoginFile, login, native_login
from mcp_bench.plugins.needs import Needs
from mcp_bench.plugins.opencode.session import fault, prefix, read_session
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

FOLDER = ".local/share/opencode"
"""In HOME: where its login and its database lie."""
FILE = LoginFile(
    "auth.json",
    FOLDER,
    "opencode auth login",
    ("XDG_DATA_HOME",),
    "opencode",
    alone="opencode reads it and writes it anew, in place and without a lock",
)
"""Written through a link."""

ENDPOINT = "endpoint"
"""Name of the provider that stands for an endpoint of the user's own."""
KEY = "MCP_BENCH_ENDPOINT_KEY"

NATIVE = {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_SHARE": "1"}
FIXED = {
    **NATIVE,
    "OPENCODE_DISABLE_CLAUDE_CODE": "1",
    "OPENCODE_DISABLE_EXTERNAL_SKILLS": "1",
    "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "OPENCODE_DISABLE_PROJECT_CONFIG": "1",
}
NO_PLUGINS = {"OPENCODE_DISABLE_DEFAULT_PLUGINS": "1"}
"""Those that come with it are what logs in to some providers; a key needs none."""
BUILTIN = (
    *("bash", "codesearch", "edit", "external_directory", "glob", "grep", "list", "lsp", "question", "read"),
    *("skill", "task", "todoread", "todowrite", "webfetch", "websearch"),
)
"""What is to be allowed or denied of its own tools."""
MINUTE = 60_000
"""Milliseconds; a limit for the server to start and for its tools to be listed."""


class OpenCode:
    name = "opencode"
    summary = "opencode, the open-source terminal agent."
    capabilities = Capabilities(
        reports_usage=True, reports_cost=True, reports_reasoning=True, http=True, native=True
    )
    needs = Needs(
        tested="1.18.33",
        login=(*(name for names in LOGIN.values() for name in names), ANY_LOGIN),
        login_files=(FILE,),
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
        env, lent = configure(request)
        # With a title of its own it asks the model for none.
        argv = ["run", "--format=json", "--thinking", "--title=task"]
        argv += [] if request.native else ["--pure"]
        argv += ["--print-logs", "--log-level=WARN"]
        argv += [f"--variant={effort}"] if (effort := request.options.get("effort")) else []
        argv = [request.installation.executable, *argv]
        return Launch(tuple(argv), env, stdin=request.prompt.encode(), login=lent)

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


def configure(request: LaunchRequest, *, with_server: bool = True) -> tuple[dict[str, str], LentLogin | None]:
    """Write the configuration into the private HOME; return the variables that go with it.

    In the user's home it is the configuration of a project, which the working directory is.

    Raises:
        LoginMissingError: there is no login.
        WrongUseError: an endpoint is named without a model.
    """
    settings = configuration(request)
    if not with_server:
        del settings["mcp"]
    path = (request.workdir if request.native else request.home) / "opencode.json"
    path.write_text(json.dumps(settings), encoding="utf-8")
    env, lent = dict(NATIVE), None
    if not request.native:
        env = {**FIXED, **NO_PLUGINS, "OPENCODE_CONFIG": str(path)}
        no_installation(request.home / ".config" / "opencode")
    environ = request.environ
    if request.base_url:
        env[KEY] = environ.get("OPENAI_API_KEY") or PLACEHOLDER
    elif request.native:
        lent = native_login(environ, login_variables(request), FILE)
    elif found := logins(request):
        env |= found
    elif FILE.is_there(environ):
        lent = FILE.lend(environ, request.home / FOLDER)
        del env["OPENCODE_DISABLE_DEFAULT_PLUGINS"]
    return env, lent


def configuration(request: LaunchRequest) -> dict[str, Any]:
    """Return what goes into opencode.json."""
    server = request.server
    entry: dict[str, Any] = {"type": "local", "command": list(server.command)}
    if server.url is not None:
        entry = {"type": "remote", "url": server.url, "oauth": False}
    own = {f"{prefix(server)}*": "allow"}
    # The last rule that fits counts; what is denied for good is not even offered to the model.
    nothing = dict.fromkeys(BUILTIN, "deny") if request.native else {"*": "deny"}
    rules = {**nothing, **own}
    web = {"webfetch": "deny", "websearch": "deny", "question": "deny"}
    config: dict[str, Any] = {
        "autoupdate": False,
        "share": "disabled",
        "agent": {"title": {"disable": True}},
        "permission": rules if request.tools == "mcp-only" else {"*": "allow", **web, **own},
        "mcp": {server.name: {**entry, "enabled": True, "timeout": MINUTE}},
    }
    if request.native and request.tools == "mcp-only":  # these come after all that the user says in general
        config["agent"]["build"] = {"permission": rules}
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
    """Return the variables that log in to the model's provider, or to all where no model is named.

    Raises:
        LoginMissingError: none is set, and there is no login file either.
    """
    names, environ = login_variables(request), request.environ
    if provider_of(request) != "opencode":  # some of its own models are free
        login("opencode", environ, names, FILE)
    return {name: value for name in names if (value := environ.get(name))}


def login_variables(request: LaunchRequest) -> tuple[str, ...]:
    known = LOGIN.get(provider_of(request)) or tuple(name for names in LOGIN.values() for name in names)
    return (*known, ANY_LOGIN)


def provider_of(request: LaunchRequest) -> str:
    return (request.model or "").partition("/")[0]
