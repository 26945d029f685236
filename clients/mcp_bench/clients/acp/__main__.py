"""Run one agent over the Agent Client Protocol (ACP), through one session.

echo "What is 2 + 3?" | python -m mcp_bench.clients.acp --plan FILE

Standard output has one JSON object per line, documented in `mcp_bench.clients.acp.conversation`. The agent's
standard error goes to ours.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from mcp_bench.clients.acp.conversation import converse
from mcp_bench.clients.acp.plan import read_plan
from mcp_bench.clients.events import ClientError
from mcp_bench.clients.process import read_stdin, run

DESCRIPTION = """\
Start an agent that speaks the Agent Client Protocol, open a session with MCP servers, wait until they are
ready, and send the prompt from stdin.
"""


def arguments() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        prog="python -m mcp_bench.clients.acp",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    result.add_argument(
        "--plan",
        type=Path,
        required=True,
        metavar="FILE",
        help='JSON: {"command": [...], "mcpServers": [...]}',
    )
    result.add_argument(
        "--turns", action="store_true", help="stdin is a JSON list of prompts, one for each user turn"
    )
    return result


def prompts(text: str, *, turns: bool) -> list[str]:
    """Return the user's prompts, one for each turn.

    Raises:
        ClientError: `turns` requires a JSON list of strings that are not empty.
    """
    if not turns:
        return [text]
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ClientError("usage", f"stdin is not JSON: {error}") from error
    if not (isinstance(value, list) and value and all(isinstance(one, str) and one for one in value)):
        raise ClientError("usage", "stdin should be a JSON list of prompts")
    return value


async def solve(options: argparse.Namespace) -> None:
    plan = read_plan(options.plan)
    await converse(plan, prompts(read_stdin("the task"), turns=options.turns))


def main() -> None:
    options = arguments().parse_args()
    run(lambda: solve(options))


if __name__ == "__main__":
    main()
