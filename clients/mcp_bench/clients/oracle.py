r"""A client that plays given calls over real MCP, perfectly or, on request, imperfectly.

    echo '{"calls": [{"name": "add", "arguments": {"a": 1}}], "answer": "2"}' \
        | python -m mcp_bench.clients.oracle --mcp-config FILE --drop 0.3 --seed 7

The calls come on stdin so that no file has the solution. The client plays all calls, whatever the tools
return. It submits the answer through `submit_answer`, if the server has that tool, and prints it as the last
message. With `--explain` it says before a call where its values come from; stdin then has the request, too,
as `"prompt"`.
"""

from __future__ import annotations

import argparse
import json

from mcp_bench.clients.config import read_config
from mcp_bench.clients.connection import Connection, connect
from mcp_bench.clients.events import (
    CalledTool,
    ClientError,
    say_assistant,
    say_final,
    say_result,
)
from mcp_bench.clients.explained import Explainer
from mcp_bench.clients.imperfect import Call, with_slips, worsen
from mcp_bench.clients.process import add_drawing, drawing_key, parser, read_stdin, run, share

SUBMIT = "submit_answer"


def read_reference(text: str) -> tuple[list[Call], str, str]:
    """Return calls, answer and request of `{"calls": [{"name", "arguments"}], "answer": "", "prompt": ""}`.

    Raises:
        ClientError: the text does not have this form.
    """
    try:
        document = json.loads(text)
        calls = [Call(call["name"], call.get("arguments") or {}) for call in document.get("calls", [])]
        answer, prompt = document.get("answer") or "", document.get("prompt") or ""
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ClientError("usage", f"stdin is not a reference solution in JSON: {error!r}") from error
    named = all(isinstance(call.name, str) and isinstance(call.arguments, dict) for call in calls)
    if not named or not isinstance(answer, str) or not isinstance(prompt, str):
        raise ClientError(
            "usage", "stdin: a call needs a name and an object of arguments; answer and prompt are text"
        )
    return calls, answer, prompt


async def play(connection: Connection, calls: list[Call], explainer: Explainer | None = None) -> None:
    """Make the calls in sequence, each with its explanation."""
    for number, call in enumerate(calls, 1):
        called = CalledTool(f"call_{number}", call.name, call.arguments)
        say_assistant(explainer.explain(call.arguments) if explainer else None, calls=[called])
        outcome = await connection.call(call.name, call.arguments)
        say_result(called, outcome.text, is_error=outcome.is_error)
        if explainer:
            explainer.took(outcome.text)


async def solve(options: argparse.Namespace) -> None:
    server = read_config(options.mcp_config, options.server)
    calls, answer, prompt = read_reference(read_stdin("the reference calls as JSON"))
    async with connect(server, options.connect_timeout) as connection:
        schemas = {tool.name: tool.schema for tool in connection.tools}
        seed = drawing_key(options)
        todo = worsen(calls, drop=options.drop, spoil=options.spoil, seed=seed, schemas=schemas)
        if options.drop_answer:
            todo, answer = [call for call in todo if call.name != SUBMIT], ""
        elif answer and SUBMIT in schemas and not any(call.name == SUBMIT for call in calls):
            todo.append(Call(SUBMIT, {"answer": answer}))
        if options.slips:
            tools = {name: schema for name, schema in schemas.items() if name != SUBMIT}
            todo = with_slips(todo, slips=options.slips, seed=seed, schemas=tools)
        await play(connection, todo, Explainer(prompt) if options.explain else None)
    if answer:
        say_assistant(answer)
    say_final(answer)


def main() -> None:
    arguments = parser("oracle", "Play the calls on stdin over MCP.")
    arguments.add_argument(
        "--drop", type=share, default=0.0, metavar="SHARE", help="share of calls to leave out, 0 to 1"
    )
    arguments.add_argument(
        "--spoil",
        type=share,
        default=0.0,
        metavar="SHARE",
        help="share of calls to change an argument of, 0 to 1",
    )
    arguments.add_argument(
        "--slips",
        type=share,
        default=0.0,
        metavar="SHARE",
        help="share of calls to make wrongly at first, so that the tool refuses them, 0 to 1",
    )
    add_drawing(arguments)
    arguments.add_argument("--explain", action="store_true", help="say where a call's values come from")
    arguments.add_argument("--drop-answer", action="store_true", help="submit no answer")
    options = arguments.parse_args()
    run(lambda: solve(options))


if __name__ == "__main__":
    main()
