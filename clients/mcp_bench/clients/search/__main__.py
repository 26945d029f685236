"""The search agent's command line.

echo "Make it faster." | python -m mcp_bench.clients.search --mcp-config FILE --model M --driver puct

It works on servers with the tools `read`, `write`, `run` and `submit` of the benchmark `improve`.
"""

from __future__ import annotations

import argparse
import math
import os
from random import Random

from mcp_bench.clients.chat import options as model_options
from mcp_bench.clients.chat.loop import NOTHING
from mcp_bench.clients.chat.provider import ContextOverflowError, Usage
from mcp_bench.clients.config import read_config
from mcp_bench.clients.connection import connect
from mcp_bench.clients.events import ClientError, say_final, say_usage
from mcp_bench.clients.process import read_stdin, run
from mcp_bench.clients.search import gepa_driver, openevolve_driver
from mcp_bench.clients.search.attempt import Search
from mcp_bench.clients.search.choose import DRIVERS, Choose, icl

DESCRIPTION = """\
Improve the target of an MCP server's task with versions that a chat model proposes. The task is on stdin.
"""
IN_VAIN = 5
"""Answers in a row without a new program, after which the search ends."""


async def solve(options: argparse.Namespace) -> None:
    server = read_config(options.mcp_config, options.server)
    task = read_stdin("the task")
    name = model_options.choose_provider(options.provider, os.environ)
    chosen = model_options.settings(options, name, os.environ)
    choose: Choose = DRIVERS.get(options.driver, icl)
    if options.driver == openevolve_driver.NAME:
        choose = openevolve_driver.Islands(options.seed)
    async with connect(server, options.connect_timeout) as connection:
        search = Search(connection, task, choose, Random(options.seed))  # noqa: S311
        await search.begin()
        used, in_vain = NOTHING, 0

        def more() -> bool:
            return (
                search.left > 0
                and used.model_calls < options.max_steps
                and in_vain < IN_VAIN
                and tokens(used, options.token_budget) < options.token_budget
            )

        async def propose(asked: str, parents: tuple[int, ...]) -> None:
            nonlocal used, in_vain
            try:
                reply = await model_options.open_provider(name, chosen, asked, ()).reply()
            except ContextOverflowError as error:
                raise ClientError("context", f"the request is too long for the model: {error}") from error
            used += reply.usage
            say_usage(used.as_dict())
            in_vain = 0 if await search.propose(reply, parents) else in_vain + 1

        if options.driver == gepa_driver.NAME:
            await gepa_driver.drive(search, propose, more, options.seed)
        else:
            while more():
                await propose(*search.request())
        await search.submit()
    say_final("Submitted.")


def tokens(used: Usage, budget: float) -> int:
    """Return the tokens of all requests and answers, cached ones too.

    Raises:
        ClientError: there is a budget, and the endpoint does not report them.
    """
    if used.model_calls == 0 or budget == math.inf:
        return 0
    if used.input_tokens is None or used.output_tokens is None:
        raise ClientError("usage", "the endpoint reports no tokens: leave out the option token_budget")
    return used.input_tokens + used.output_tokens


def main() -> None:
    parser = model_options.parser("search", DESCRIPTION)
    parser.add_argument(
        "--driver",
        choices=[*DRIVERS, gepa_driver.NAME, openevolve_driver.NAME],
        default="icl",
        help="who chooses what it sees (default: icl)",
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of random choices (default: 0)")
    parser.add_argument(
        "--token-budget",
        type=model_options.positive,
        default=math.inf,
        metavar="N",
        help="tokens of requests and answers, after which it submits (default: no limit)",
    )
    options = parser.parse_args()
    run(lambda: solve(options))


if __name__ == "__main__":
    main()
