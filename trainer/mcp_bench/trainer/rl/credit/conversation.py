"""What was said in an attempt, to make hints of it for the other attempts at its task."""

from __future__ import annotations

from dataclasses import dataclass

from mcp_bench.recorder.model_api.dialects import BY_NAME
from mcp_bench.recorder.model_api.exchange import reply_of
from mcp_bench.recorder.runs.reader import RunReader
from mcp_bench.trainer.engine.api.chat_request import ChatRequest, read_request
from mcp_bench.trainer.engine.api.messages_request import read_messages
from mcp_bench.trainer.engine.api.responses_request import read_responses

READERS = {
    "chat-completions": read_request,
    "responses": read_responses,
    "anthropic-messages": read_messages,
}
"""By the recorder's names of the APIs."""


@dataclass(frozen=True)
class Conversation:
    """The messages of an attempt."""

    requests: tuple[ChatRequest, ...]
    """One for each answer, in order."""
    last: str
    """The text of the last answer, if it called nothing; else empty."""
    errors: tuple[str, ...]
    """Calls that failed, each with what the environment said."""


def read_conversation(reader: RunReader, episode: str) -> Conversation:
    """Return what was said in an episode."""
    requests, last = [], ""
    for call, dialect, answer in reader.model_answers(episode):
        body = reader.model_bodies(call)[0]
        requests.append(READERS[dialect](body.encode() if isinstance(body, str) else body))
        reply = reply_of(BY_NAME[dialect], answer)
        last = reply.text if reply is not None and not reply.calls else ""
    failed = [f"{call.tool}: {call.text}" for call in reader.calls(episode) if call.is_error]
    return Conversation(tuple(requests), last, tuple(dict.fromkeys(failed)))
