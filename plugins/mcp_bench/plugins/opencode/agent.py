"""opencode, by `opencode run`.

Written for 1.18.33. Its configuration: https://opencode.ai/docs/config
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from mcp_bench.plugins.cli_agent import CliAgent, first_set
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
from mcp_bench.plugins.opencode.session import OpenCodeSession, failed_since, prefix, read_session, session_id
from mcp_bench.plugins.output import ODD, endpoint_fault, not_approved, overflowed
from mcp_bench.plugins.text_files import json_lines, tail
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
"""The variables that log in to a provider, which is the first part of a model's name."""
ANY_LOGIN = "OPENCODE_AUTH_CONTENT"
"""Holds what `opencode auth login` writes, for any provider."""
VARIABLES = (*(name for names in LOGIN.values() for name in names), ANY_LOGIN)

FOLDER = ".local/share/opencode"
"""Relative to HOME: the folder of its login and its database."""
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
"""Name of the provider that stands for the user's own endpoint."""
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
"""Its default plugins log in to some providers with a login file; a key needs none."""
BUILTIN = (
    *("bash", "codesearch", "edit", "external_directory", "glob", "grep", "list", "lsp", "question", "read"),
    *("skill", "task", "todoread", "todowrite", "webfetch", "websearch"),
)
"""Permissions of its own tools."""
MINUTE = 60_000
"""Milliseconds; the limit for the server to start and for its tools to be listed."""

OWN_FAILURE = {
    "ContentFilterError",
    "ContextOverflowError",
    "MessageAbortedError",
    "MessageOutputLengthError",
}
"""Errors caused by the model's behaviour, not by the endpoint."""


class OpenCode(CliAgent[OpenCodeSession]):
    name = "opencode"
    summary = "opencode, the open-source terminal agent."
    program = "opencode"
    install = "npm install -g opencode-ai"
    capabilities = Capabilities(
        reports_usage=True, reports_cost=True, reports_reasoning=True, http=True, native=True, system=True
    )
    needs = Needs(
        tested="1.18.33",
        login=VARIABLES,
        bound=tuple(name for name in VARIABLES if name != "OPENAI_API_KEY"),
        login_files=(FILE,),
        log_in="opencode auth login",
        api="chat-completions",
        endpoint_keys=(KEY,),
    )
    options: Mapping[str, str] = {"effort": "variant of the model, such as its reasoning effort (high, ...)"}

    def environment(self, request: LaunchRequest) -> tuple[dict[str, str], LentLogin | None]:
        env, lent = super().environment(request)
        return (env if request.native or lent else {**env, **NO_PLUGINS}), lent

    def configuration_variables(self, request: LaunchRequest) -> dict[str, str]:
        return dict(NATIVE) if request.native else {**FIXED, "OPENCODE_CONFIG": str(config_path(request))}

    def log_in(self, request: LaunchRequest) -> tuple[dict[str, str], LentLogin | None]:
        """Pass on all variables of the model's provider, or of all providers if no model is named."""
        if request.native or request.base_url:
            return super().log_in(request)
        environ = request.environ
        found = {name: value for name in self.login_variables(request) if (value := environ.get(name))}
        free = provider_of(request) == "opencode"  # some of its own models need no login
        return (found, None) if found or (free and not FILE.is_there(environ)) else self.lend_login(request)

    def use_endpoint(self, request: LaunchRequest, url: str) -> dict[str, str]:
        """Return the key; the address goes into the configuration."""
        return {KEY: first_set(request.environ, self.needs.endpoint_login) or PLACEHOLDER}

    def login_variables(self, request: LaunchRequest) -> Sequence[str]:
        known = LOGIN.get(provider_of(request))
        return (*known, ANY_LOGIN) if known else VARIABLES

    def setup(self, request: LaunchRequest, env: Mapping[str, str], *, with_server: bool = True) -> None:
        """Write opencode.json; in the user's HOME, as that of a project: the working directory.

        Raises:
            WrongUseError: an endpoint is named without a model.
        """
        config = configuration(request)
        if not with_server:
            del config["mcp"]
        if request.system:
            path = request.home / "instructions.md"
            path.write_text(request.system, encoding="utf-8")
            config["instructions"] = [str(path)]
        config_path(request).write_text(json.dumps(config), encoding="utf-8")
        if not request.native:
            no_installation(request.home / ".config" / "opencode")

    def arguments(self, request: LaunchRequest) -> list[str]:
        argv = ["run", "--format=json", "--thinking", "--title=task"]  # else it asks the model for a title
        argv += [] if request.native else ["--pure"]
        argv += ["--print-logs", "--log-level=WARN"]
        argv += [f"--variant={effort}"] if (effort := request.options.get("effort")) else []
        return argv

    def resume(self, launch: Launch, said: str, output: AgentOutput) -> Launch | None:
        """Return `opencode run --session`, with the options of the first launch."""
        if (session := session_id(json_lines(output.stdout))) is None:
            return None
        return replace(launch, argv=(*launch.argv, f"--session={session}"), stdin=said.encode())

    def read_session(self, output: AgentOutput, server: McpServer) -> OpenCodeSession:
        return read_session(output.stdout, server)

    def fault(self, session: OpenCodeSession, output: AgentOutput, server: McpServer) -> Fault | None:
        if session.denied:
            return not_approved(session.denied)
        log = tail(output.stderr)
        unavailable = re.search(
            rf'^.*message="server unavailable" key={re.escape(server.name)} .*$', log, re.MULTILINE
        )
        if unavailable and not any(m.tool_calls for m in session.turns.messages()):
            return Fault(kind="server_not_connected", detail=unavailable.group())
        if session.error is None:  # it may have been stopped while it retried a request
            failed = failed_since(session.time, log)
            own = failed is None or overflowed(failed)
            return None if own else Fault(kind="endpoint_error", detail=str(failed))
        with suppress(*ODD):
            name, data = str(session.error["name"]), session.error.get("data") or {}
            detail = f"{name}: {data.get('statusCode', '')} {data.get('message', '')}"
            if name in OWN_FAILURE or overflowed(detail):
                return None
            missing = name == "ProviderAuthError" or "API key is missing" in detail
            return Fault(kind="login_missing", detail=detail) if missing else endpoint_fault(detail)
        return None


def config_path(request: LaunchRequest) -> Path:
    return (request.workdir if request.native else request.home) / "opencode.json"


def configuration(request: LaunchRequest) -> dict[str, Any]:
    """Return the content of opencode.json."""
    server = request.server
    entry: dict[str, Any] = {"type": "local", "command": list(server.command)}
    if server.url is not None:
        entry = {"type": "remote", "url": server.url, "oauth": False}
    own = {f"{prefix(server)}*": "allow"}
    # The last rule that matches counts. A tool that is always denied is not even offered to the model.
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
    if request.native and request.tools == "mcp-only":  # an agent's rules come after the user's general ones
        config["agent"]["build"] = {"permission": rules}
    model = request.model
    if url := request.base_url:
        if model is None:
            raise WrongUseError("opencode needs the name of the endpoint's model: add --model")
        config["enabled_providers"] = [ENDPOINT]
        config["provider"] = {
            ENDPOINT: {
                "npm": "@ai-sdk/openai-compatible",  # part of opencode
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
    """Pretend that the package for writing plugins is installed: else it installs it on each start."""
    (folder / "node_modules").mkdir(parents=True)
    lock = {"packages": {"": {"dependencies": {"@opencode-ai/plugin": "*"}}}}
    (folder / "package-lock.json").write_text(json.dumps(lock))


def provider_of(request: LaunchRequest) -> str:
    return (request.model or "").partition("/")[0]
