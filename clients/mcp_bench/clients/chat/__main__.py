"""The chat agent's command line.

echo "What is 2 + 3?" | python -m mcp_bench.clients.chat --mcp-config FILE --model M --base-url URL
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from mcp_bench.clients.chat.loop import NOTHING, converse
from mcp_bench.clients.chat.options import choose_provider, open_provider, parser, settings
from mcp_bench.clients.chat.provider import Provider, Usage
from mcp_bench.clients.chat.toolbox import Toolbox
from mcp_bench.clients.config import read_config
from mcp_bench.clients.connection import Entry, connect
from mcp_bench.clients.events import ClientError, sink
from mcp_bench.clients.process import finished, read_stdin, run

DESCRIPTION = """\
Solve the task on stdin with a chat model and the tools of an MCP server.

The key comes from OPENAI_API_KEY or ANTHROPIC_API_KEY, the endpoint from --base-url, or else from
OPENAI_BASE_URL or ANTHROPIC_BASE_URL. The default for --provider is anthropic if only its variables are set,
else openai. Your own endpoint (--base-url) needs no key.
"""

OF_SDKS = ("OPENAI_", "ANTHROPIC_")


def arguments() -> argparse.ArgumentParser:
    result = parser("chat", DESCRIPTION)
    result.add_argument("--one-action", action="store_true", help="one tool call per turn, without text")
    result.add_argument(
        "--session", type=Path, metavar="FILE", help="go on with the conversation in FILE, and keep it there"
    )
    return result


async def solve(options: argparse.Namespace, server: Entry, prompt: str, environ: Mapping[str, str]) -> None:
    """Have the conversation about a task, and report it as events.

    Raises:
        ClientError: the model endpoint or the MCP server failed, or an option makes no sense.
    """
    name = choose_provider(options.provider, environ)
    chosen = settings(options, name, environ)
    async with connect(server, options.connect_timeout) as connection:
        toolbox = Toolbox(connection, one_action=options.one_action)
        provider = open_provider(name, chosen, prompt, toolbox.offered)
        used = NOTHING
        if options.session is not None and options.session.exists():
            used = resume(provider, options.session)
        total = await converse(provider, toolbox, options.max_steps, used)
        if options.session is not None and total is not None:
            keep(provider, options.session, total)


def resume(provider: Provider, path: Path) -> Usage:
    """Put the stored conversation before the new message, and return what it had used.

    Raises:
        ClientError: the file has no conversation.
    """
    try:
        stored = json.loads(path.read_bytes())
        provider.go_on(stored["messages"])
        return Usage(**stored["usage"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ClientError("usage", f"cannot go on with the conversation in {path}: {error!r}") from error


def keep(provider: Provider, path: Path, used: Usage) -> None:
    """Store the conversation."""
    path.write_text(json.dumps({"messages": provider.messages, "usage": used.as_dict()}), encoding="utf-8")


async def serve(
    words: Sequence[str],
    server: Entry,
    prompt: str,
    environ: Mapping[str, str],
    take: Callable[[str], object],
    complain: Callable[[str], object],
) -> int:
    """Do what `main` does, as a part of another process, and return the exit code.

    Args:
        words: the command line.
        server: in place of the one that it names.
        prompt: what stdin would have.
        environ: the environment that it would have. Other variables of the SDKs are removed from this
            process.
        take: gets each event.
        complain: gets what stderr would.
    """
    sink.set(take)
    for name in [name for name in os.environ if name.startswith(OF_SDKS) and name not in environ]:
        del os.environ[name]  # the SDKs read them there, and would send the user's own headers
    return await finished(lambda: solve(arguments().parse_args(words), server, prompt, environ), complain)


def main() -> None:
    options = arguments().parse_args()
    run(
        lambda: solve(
            options, read_config(options.mcp_config, options.server), read_stdin("the task"), os.environ
        )
    )


if __name__ == "__main__":
    main()
