"""The chat agent's command line.

echo "What is 2 + 3?" | python -m mcp_bench.clients.chat --mcp-config FILE --model M --base-url URL
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping

from mcp_bench.clients.chat.loop import converse
from mcp_bench.clients.chat.provider import Provider, Settings
from mcp_bench.clients.chat.toolbox import Toolbox
from mcp_bench.clients.config import read_config
from mcp_bench.clients.connection import connect
from mcp_bench.clients.events import ClientError
from mcp_bench.clients.process import parser, read_stdin, run

DESCRIPTION = """\
Solve the task on stdin with a chat model and the tools of an MCP server.

The key comes from OPENAI_API_KEY or ANTHROPIC_API_KEY, the endpoint from --base-url, or else from
OPENAI_BASE_URL or ANTHROPIC_BASE_URL. The default for --provider is anthropic if only its variables are set,
else openai. Your own endpoint (--base-url) needs no key.
"""


def arguments() -> argparse.ArgumentParser:
    result = parser("chat", DESCRIPTION)
    result.add_argument("--model", required=True, help="name of the model")
    result.add_argument("--provider", choices=["openai", "anthropic"], help="which API")
    result.add_argument("--base-url", metavar="URL", help="the endpoint, in the form of the API's SDK")
    result.add_argument(
        "--max-steps", type=positive, default=50, help="maximum number of model turns (default: 50)"
    )
    result.add_argument("--temperature", type=float)
    result.add_argument("--max-tokens", type=positive, help="limit for each answer")
    result.add_argument("--system", metavar="TEXT", help="system prompt")
    result.add_argument(
        "--thinking", type=thinking, metavar="adaptive|TOKENS", help="ask for thinking (anthropic)"
    )
    result.add_argument(
        "--max-retries", type=natural, default=6, help="on 429, 5xx and lost connections (default: 6)"
    )
    result.add_argument("--one-action", action="store_true", help="one tool call per turn, without text")
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
        ClientError: there is neither a key nor an endpoint, or an option is not for this API.
    """
    name = provider.upper()
    base_url = options.base_url or environ.get(f"{name}_BASE_URL") or None
    key = environ.get(f"{name}_API_KEY")
    if not key and not base_url:
        raise ClientError(
            "usage", f"no model endpoint: set {name}_API_KEY, or name an endpoint with --base-url"
        )
    if options.thinking and provider != "anthropic":
        raise ClientError("usage", "--thinking is for --provider anthropic only")
    if options.thinking and options.one_action:
        raise ClientError("usage", "--one-action excludes --thinking: leave one of them out")
    return Settings(
        model=options.model,
        base_url=base_url,
        api_key=key or "none",
        system=options.system,
        temperature=options.temperature,
        max_tokens=options.max_tokens,
        thinking=options.thinking,
        max_retries=options.max_retries,
        one_action=options.one_action,
    )


async def solve(options: argparse.Namespace) -> None:
    server = read_config(options.mcp_config, options.server)
    prompt = read_stdin("the task")
    name = choose_provider(options.provider, os.environ)
    chosen = settings(options, name, os.environ)
    async with connect(server, options.connect_timeout) as connection:
        toolbox = Toolbox(connection, one_action=options.one_action)
        await converse(open_provider(name, chosen, prompt, toolbox), toolbox, options.max_steps)


def open_provider(name: str, chosen: Settings, prompt: str, toolbox: Toolbox) -> Provider:
    # importing an SDK takes half a second: only import the one in use
    if name == "anthropic":
        from mcp_bench.clients.chat.anthropic_messages import AnthropicMessages

        return AnthropicMessages(chosen, prompt, toolbox.offered)
    from mcp_bench.clients.chat.openai_chat import OpenAIChat

    return OpenAIChat(chosen, prompt, toolbox.offered)


def main() -> None:
    options = arguments().parse_args()
    run(lambda: solve(options))


if __name__ == "__main__":
    main()
