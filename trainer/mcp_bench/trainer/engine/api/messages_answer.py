"""The answers of Anthropic's Messages API, whole or as a stream of events."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from mcp_bench.trainer.engine.api.chat_answer import Reply, named_event
from mcp_bench.trainer.engine.api.errors import OVERFLOW, ApiError
from mcp_bench.trainer.engine.sequence import Completion

KINDS = {400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error"}
TEXTS = {
    "content": ("text", "text", "text_delta"),
    "reasoning_content": ("thinking", "thinking", "thinking_delta"),
}
"""For a part of the answer: the type of its block, the field of its text, and the type of a piece of it."""


class MessagesReply(Reply):
    """The answer to one request: a thought, a text and calls are blocks."""

    last = ""
    event = staticmethod(named_event)

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._blocks: list[dict[str, Any]] = []
        """The blocks that were begun; the last one may be open."""
        self._open = False

    @staticmethod
    def error(error: ApiError) -> dict[str, Any]:
        """Return an error as a document. Agents know from its words that a prompt is too long."""
        said = f"prompt is too long: {error}" if error.code == OVERFLOW else str(error)
        return {"type": "error", "error": {"type": KINDS.get(error.status, "api_error"), "message": said}}

    def whole(self, made: Completion) -> dict[str, Any]:
        """Return the answer as one document."""
        for _ in self.end(made):
            pass
        ended = self._ended(made)
        return {**self._head, "content": self._blocks, **ended, "usage": self._counted(made)}

    def begin(self) -> Iterator[dict[str, Any]]:
        """Yield the first event."""
        usage = {"input_tokens": len(self._prompt), "output_tokens": 1}
        message = {**self._head, "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
        yield {"type": "message_start", "message": message}

    def end(self, made: Completion) -> Iterator[dict[str, Any]]:
        """Yield the rest of the text, the calls, the reason for the end, and the usage."""
        yield from self._rest(made)
        for call in self.message(made).get("tool_calls", ()):
            arguments = call["function"]["arguments"]
            block = {"type": "tool_use", "id": call["id"], "name": call["function"]["name"]}
            yield from self._begin({**block, "input": {}})
            yield self._delta({"type": "input_json_delta", "partial_json": arguments})
            self._blocks[-1]["input"] = json.loads(arguments)
        yield from self._close()
        yield {"type": "message_delta", "delta": self._ended(made), "usage": self._counted(made)}
        yield {"type": "message_stop"}

    def _text(self, field: str, text: str) -> Iterator[dict[str, Any]]:
        kind, key, piece = TEXTS[field]
        if not self._open or self._blocks[-1]["type"] != kind:
            empty = {"type": kind, key: ""}
            yield from self._begin({**empty, "signature": ""} if kind == "thinking" else empty)
        self._blocks[-1][key] += text
        yield self._delta({"type": piece, key: text})

    def _begin(self, block: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield from self._close()
        self._blocks.append(block)
        self._open = True
        yield {"type": "content_block_start", "index": len(self._blocks) - 1, "content_block": {**block}}

    def _close(self) -> Iterator[dict[str, Any]]:
        if self._open:
            self._open = False
            yield {"type": "content_block_stop", "index": len(self._blocks) - 1}

    def _delta(self, delta: dict[str, Any]) -> dict[str, Any]:
        return {"type": "content_block_delta", "index": len(self._blocks) - 1, "delta": delta}

    def _ended(self, made: Completion) -> dict[str, Any]:
        called = "tool_calls" in self.message(made)
        reason, stop = "end_turn", None
        if made.finish_reason == "length":
            reason = "max_tokens"
        elif called:
            reason = "tool_use"
        elif made.stop is not None:
            reason, stop = "stop_sequence", made.stop
        return {"stop_reason": reason, "stop_sequence": stop, **self._tokens(made)}

    def _counted(self, made: Completion) -> dict[str, Any]:
        """Return the usage. This API counts cached tokens apart."""
        return {
            "input_tokens": len(self._prompt) - made.cached,
            "cache_read_input_tokens": made.cached,
            "cache_creation_input_tokens": 0,
            "output_tokens": len(made.tokens),
        }

    @property
    def _head(self) -> dict[str, Any]:
        return {"id": f"msg_{self._id}", "type": "message", "role": "assistant", "model": self._asked.model}
