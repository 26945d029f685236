"""Our own agent loop over any chat model: OpenAI-compatible endpoints and the Anthropic API."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from mcp_bench.plugins.contracts import AgentOutput, Capabilities, Launch, LaunchRequest
from mcp_bench.plugins.needs import ModelApi, Needs
from mcp_bench.plugins.own_clients import base as own_client
from mcp_bench.plugins.text_files import json_lines
from mcp_bench.servers.errors import WrongUseError

PASSED_ON = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL")

SYSTEM = "system.md"
"""In its private HOME: the system prompt, which can be too long for a command line."""
SESSION = "session.json"
"""In its private HOME: the conversation, if the user may speak again."""
CUT_OFF = ("context", "max_steps")
"""Limits after which the client does not keep the conversation."""
MODULES = {
    "openai": "mcp_bench.clients.chat.openai_chat",
    "anthropic": "mcp_bench.clients.chat.anthropic_messages",
}


class Chat(own_client.OwnClient):
    name = "chat"
    summary = "Our own agent loop over any OpenAI-compatible endpoint or the Anthropic API."
    capabilities = Capabilities(
        reports_usage=True,
        reports_reasoning=True,
        needs_model=True,
        http=True,
        system=True,
        inside=True,
        in_process=True,
    )
    needs = Needs(
        login=("OPENAI_API_KEY", "ANTHROPIC_API_KEY"),
        endpoints={
            "OPENAI_API_KEY": "https://api.openai.com/v1",
            "ANTHROPIC_API_KEY": "https://api.anthropic.com",
        },
        endpoint_variables=("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"),
    )
    extra: tuple[str, ...] = ()
    """Flags of every launch."""
    client = "chat"
    parsers: Mapping[str, Callable[[str], object]] = {
        "provider": own_client.one_of("openai", "anthropic"),
        "max_steps": own_client.positive,
        "temperature": own_client.number,
        "max_tokens": own_client.positive,
        "system": str,
        "thinking": lambda text: thinking(text),
        "max_retries": own_client.natural,
    }
    """Of the options, in the client's command line."""
    options: Mapping[str, str] = {
        "provider": "openai or anthropic (default: the one whose variables are set)",
        "max_steps": "maximum number of model turns (default 50)",
        "temperature": "sampling temperature",
        "max_tokens": "maximum number of tokens per answer",
        "system": "system prompt",
        "thinking": "anthropic only: adaptive, or a number of tokens",
        "max_retries": "attempts again on 429, 5xx and lost connections (default 6)",
    }

    def variables(self, options: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
        """Return the variables of the API that the client will use."""
        known = {name: environ[name] for name in PASSED_ON if environ.get(name)}
        api = provider(options, known).upper()
        return {name: value for name, value in known.items() if name.startswith(api)}

    def api(self, options: Mapping[str, str], environ: Mapping[str, str]) -> ModelApi:
        """Return the API that the client will use."""
        known = {name: environ[name] for name in PASSED_ON if environ.get(name)}
        return "anthropic-messages" if provider(options, known) == "anthropic" else "chat-completions"

    def key_names(self, options: Mapping[str, str], environ: Mapping[str, str]) -> tuple[str, ...]:
        """Return the variables that can hold the key for the API that the client will use."""
        known = {name: environ[name] for name in PASSED_ON if environ.get(name)}
        return (f"{provider(options, known).upper()}_API_KEY",)

    def prepare(self, request: LaunchRequest) -> Launch:
        """Return the launch with the prompt on stdin.

        Raises:
            WrongUseError: no model is named, no endpoint is known, or an option makes no sense.
        """
        if request.model is None:
            raise WrongUseError(f"agent {self.name!r} has no model of its own: name one with --model")
        env = {name: request.environ[name] for name in PASSED_ON if request.environ.get(name)}
        flags = [f"--model={request.model}", *self.extra]
        options = dict(request.options)
        if request.system:
            path = request.home / SYSTEM
            own = options.pop("system", "")
            path.write_text("\n\n".join(filter(None, (own, request.system))), encoding="utf-8")
            flags.append(f"--system-file={path}")
        flags += own_client.flags(replace(request, options=options), self.parsers)
        flags += [f"--session={request.home / SESSION}"] if request.resumable else []
        api = provider(request.options, env)
        if request.base_url is None and not self.variables(request.options, request.environ):
            named = request.options.get("provider", "").upper()
            *names, last = (name for name in PASSED_ON if name.startswith(named))
            raise WrongUseError(
                f"agent {self.name!r} knows no model endpoint: name one with --base-url, or set"
                f" {', '.join(names)} or {last}"
            )
        if "thinking" in options and api != "anthropic":
            raise WrongUseError(
                "agent option thinking: only the Anthropic API has it; add provider=anthropic"
            )
        if request.base_url is not None:  # not in the command line: the proxy's URL has a token in it
            env[f"{api.upper()}_BASE_URL"] = request.base_url
        stdin = request.prompt.encode()
        return own_client.launch(self.client, request, flags, stdin=stdin, env=env, also=(MODULES[api],))

    def resume(self, launch: Launch, said: str, output: AgentOutput) -> Launch | None:
        """Return the same launch with another message, unless a limit ended the conversation."""
        ended = [event for event in json_lines(output.stdout) if event.get("type") == "final"]
        cut_off = not ended or ended[-1].get("stopped") in CUT_OFF
        return None if cut_off else replace(launch, stdin=said.encode())


def provider(options: Mapping[str, str], env: Mapping[str, str]) -> str:
    """Return the API that the client will use: the option, else the one whose variables are set."""
    anthropic = bool(env) and all(name.startswith("ANTHROPIC") for name in env)
    return options.get("provider") or ("anthropic" if anthropic else "openai")


def thinking(text: str) -> str:
    return text if text == "adaptive" else str(own_client.positive(text))
