"""The options of clients that ask a model, and the model that they name."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from mcp_bench.clients import process
from mcp_bench.clients.chat.provider import OfferedTool, Provider, Settings
from mcp_bench.clients.events import ClientError


def parser(name: str, description: str) -> argparse.ArgumentParser:
    """Return an argument parser with the options of a client that asks a model."""
    result = process.parser(name, description)
    result.add_argument("--model", required=True, help="name of the model")
    result.add_argument("--provider", choices=["openai", "anthropic"], help="which API")
    result.add_argument("--base-url", metavar="URL", help="the endpoint, in the form of the API's SDK")
    result.add_argument(
        "--max-steps", type=positive, default=50, help="maximum number of model turns (default: 50)"
    )
    result.add_argument("--temperature", type=number)
    result.add_argument("--max-tokens", type=positive, help="limit for each answer")
    system = result.add_mutually_exclusive_group()
    system.add_argument("--system", metavar="TEXT", help="system prompt")
    system.add_argument("--system-file", metavar="F", type=Path, help="a file with the system prompt")
    result.add_argument(
        "--thinking", type=thinking, metavar="adaptive|TOKENS", help="ask for thinking (anthropic)"
    )
    result.add_argument(
        "--max-retries", type=natural, default=6, help="on 429, 5xx and lost connections (default: 6)"
    )
    return result


def natural(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text} is less than 0")
    return value


def positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return value


def number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{text} is no number")
    return value


def thinking(text: str) -> str:
    return text if text == "adaptive" else str(positive(text))


def choose_provider(provider: str | None, environ: Mapping[str, str]) -> str:
    """Return `openai` or `anthropic`: the option, else the one whose variables are set."""

    def has_variables(name: str) -> bool:
        return any(environ.get(f"{name}_{what}") for what in ("API_KEY", "BASE_URL"))

    return provider or (
        "anthropic" if has_variables("ANTHROPIC") and not has_variables("OPENAI") else "openai"
    )


def settings(options: argparse.Namespace, provider: str, environ: Mapping[str, str]) -> Settings:
    """Return the model's settings.

    Raises:
        ClientError: there is neither a key nor an endpoint, no request can carry the key, or an option is not
            for this API.
    """
    name = provider.upper()
    base_url = options.base_url or environ.get(f"{name}_BASE_URL") or None
    key = environ.get(f"{name}_API_KEY")
    if not key and not base_url:
        raise ClientError(
            "usage", f"no model endpoint: set {name}_API_KEY, or name an endpoint with --base-url"
        )
    if key and not (key.isascii() and key.isprintable()):  # the error of the HTTP library would show it
        raise ClientError(
            "login", f"{name}_API_KEY cannot be sent: it has a line end, or another character that no key has"
        )
    if options.thinking and provider != "anthropic":
        raise ClientError("usage", "--thinking is for --provider anthropic only")
    one_action = bool(getattr(options, "one_action", False))
    if options.thinking and one_action:
        raise ClientError("usage", "--one-action excludes --thinking: leave one of them out")
    return Settings(
        model=options.model,
        base_url=base_url,
        api_key=key or "none",
        system=options.system if options.system_file is None else text_of(options.system_file),
        temperature=options.temperature,
        max_tokens=options.max_tokens,
        thinking=options.thinking,
        max_retries=options.max_retries,
        one_action=one_action,
        trust_env=environ is os.environ,
    )


def text_of(path: Path) -> str:
    """Return a file's text.

    Raises:
        ClientError: it cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ClientError("usage", f"--system-file {path}: {error}") from error


def open_provider(name: str, chosen: Settings, prompt: str, tools: Sequence[OfferedTool]) -> Provider:
    # importing an SDK takes half a second: only import the one in use
    if name == "anthropic":
        from mcp_bench.clients.chat.anthropic_messages import AnthropicMessages

        return AnthropicMessages(chosen, prompt, tools)
    from mcp_bench.clients.chat.openai_chat import OpenAIChat

    return OpenAIChat(chosen, prompt, tools)
