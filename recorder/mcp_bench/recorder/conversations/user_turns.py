"""Turns of a user who speaks again.

Agents that continue a session have them as messages. The others talk with such a user through a tool; a
trajectory shows each exchange as what it is: a message of the assistant, and one of the user.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mcp_bench.recorder.trajectory import Message, ToolSchema

REPLY_TOOL = "reply_to_user"
"""The referee's tool. Its argument `message` is what the agent says, its result what the user says."""
LEFT = "The user has left the conversation."
"""Its result when the conversation is over."""
CONVERSATION = (
    "The user may answer what you say, and ask for more. Say everything that the user is to read with the "
    f"tool {REPLY_TOOL}. When you have done what was asked, report it with {REPLY_TOOL}, too; you are done "
    "when the user has left."
)
"""What an agent reads in such a task, after the task's own instructions."""


def with_user_turns(messages: Sequence[Message]) -> list[Message]:
    """Return a conversation in which calls of `reply_to_user` are turns of assistant and user.

    A message with several calls is divided at such a call. What an agent wrote beside the call was not shown
    to the user; it becomes reasoning. What it says once the user has left is left out, since nobody reads it.
    Calls that failed stay as they are. Instructions about the tool are left out.
    """
    return [message for _, message in placed_user_turns(messages)]


def placed_user_turns(messages: Sequence[Message]) -> list[tuple[int, Message]]:
    """Return what `with_user_turns` does, each message with the place of the one that it was made from."""
    results = {message.tool_call_id: message for message in messages if message.role == "tool"}
    turned: set[str | None] = set()
    found: list[tuple[int, Message]] = []
    left = False
    for place, message in enumerate(messages):
        if message.role == "system":
            own = (message.content or "").removesuffix(CONVERSATION).rstrip()
            found += [(place, message.model_copy(update={"content": own}))] if own else []
            continue
        if message.role == "tool" and message.tool_call_id in turned:
            continue
        if left and message.role == "assistant" and not message.tool_calls:
            continue
        found += [(place, part) for part in _divided(message, results, turned)]
        left = left or any(results[one].content == LEFT for one in turned if one in results)
    return found


def with_heard(messages: Sequence[Message], heard: Sequence[tuple[int, str]]) -> list[Message]:
    """Return an agent's messages with those of its user.

    Args:
        heard: what the user said, and how many messages of the agent came before it.
    """
    found = list(messages)
    for position, text in reversed(heard):
        found.insert(position, Message(role="user", content=text))
    return found


def without_reply_tool(tools: Sequence[ToolSchema]) -> list[ToolSchema]:
    """Return the tools of a conversation that is shown with turns of its user."""
    return [tool for tool in tools if tool.function.name != REPLY_TOOL]


def _divided(
    message: Message, results: dict[str | None, Message], turned: set[str | None]
) -> Iterator[Message]:
    said = [
        call
        for call in message.tool_calls
        if call.function.name == REPLY_TOOL
        and call.id in results
        and not results[call.id].is_error
        and isinstance(call.function.arguments.get("message"), str)
    ]
    if not said:
        yield message
        return
    others = [call for call in message.tool_calls if call not in said]
    if others:  # their results follow the message, and come before the user's turn
        yield message.model_copy(update={"tool_calls": others})
        for call in others:
            if call.id in results:
                turned.add(call.id)
                yield results[call.id]
    beside = "" if others else "\n\n".join(filter(None, (message.reasoning, message.content)))
    for call in said:
        turned.add(call.id)
        yield Message(
            role="assistant", content=str(call.function.arguments["message"]), reasoning=beside or None
        )
        beside = ""
        answer = results[call.id].content or ""
        if answer != LEFT:
            yield Message(role="user", content=answer)
