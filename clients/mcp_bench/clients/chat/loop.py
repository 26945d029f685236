"""The agent loop: ask the model and make its calls, until it makes none."""

from __future__ import annotations

from mcp_bench.clients.chat.provider import ContextOverflowError, Provider, Usage
from mcp_bench.clients.chat.toolbox import NOT_MADE, SAID, Toolbox
from mcp_bench.clients.events import say_assistant, say_error, say_final, say_result, say_usage

NOTHING = Usage(model_calls=0)


async def converse(
    provider: Provider, toolbox: Toolbox, max_steps: int, usage: Usage = NOTHING
) -> Usage | None:
    """Go on with a conversation of at most `max_steps` model turns, and report it as events.

    A limit (turns, context, tokens of an answer) ends it normally: the last text is the answer.

    Args:
        usage: what the conversation has used so far.

    Returns:
        What it has used now, or None if a limit has ended it.

    Raises:
        ClientError: the model endpoint or the MCP server failed.
    """
    text = ""
    while usage.model_calls < max_steps:
        try:
            reply = await provider.reply()
        except ContextOverflowError as error:
            say_error("context", f"the conversation is too long for the model: {error}")
            say_final(text, "context")
            return None
        usage += reply.usage
        text = reply.text or text
        answer = toolbox.answer(reply.calls)
        made = [] if answer is not None else toolbox.made(reply.calls)
        calls = [toolbox.called(request) for request in made]
        say_assistant(reply.text if answer is None else answer, reply.reasoning, calls)
        say_usage(usage.as_dict())
        if not calls:
            if reply.calls:  # of the tool to finish with
                provider.add_results([(request, SAID) for request in reply.calls])
            say_final(answer if answer is not None else reply.text or "", reply.stopped)
            return usage
        outcomes = await toolbox.call_all(made)
        for call, outcome in zip(calls, outcomes, strict=True):
            say_result(call, outcome.text, is_error=outcome.is_error)
        left_out = [NOT_MADE] * (len(reply.calls) - len(made))
        provider.add_results(list(zip(reply.calls, [*outcomes, *left_out], strict=True)))
    say_final(text, "max_steps")
    return None
