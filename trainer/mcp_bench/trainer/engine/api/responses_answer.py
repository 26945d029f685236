"""The answers of OpenAI's Responses API, whole or as a stream of events."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from typing import Any

from mcp_bench.trainer.engine.api.chat_answer import Reply, named_event
from mcp_bench.trainer.engine.api.responses_request import INPUT, Origin, ResponsesRequest
from mcp_bench.trainer.engine.sequence import Completion

Item = dict[str, Any]


class ResponsesReply(Reply):
    """The answer to one request: a thought, a text and calls are items of their own."""

    last = ""
    event = staticmethod(named_event)

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._numbers = count()
        self._items: list[Item] = []
        """The items that were begun, complete but for the last one."""

    def whole(self, made: Completion) -> dict[str, Any]:
        """Return the answer as one document."""
        for _ in self.end(made):
            pass
        return self._document(made)

    def begin(self) -> Iterator[dict[str, Any]]:
        """Yield the first events."""
        begun = {**self._head, "status": "in_progress", "output": [], "usage": None}
        yield self._event("response.created", response=begun)
        yield self._event("response.in_progress", response=begun)

    def end(self, made: Completion) -> Iterator[dict[str, Any]]:
        """Yield the rest of the text, the calls, and the whole answer."""
        yield from self._rest(made)
        yield from self._close()
        calls = self.message(made).get("tool_calls", ())
        if not self._items and not calls:  # an empty answer is an item, too: the agent's history shows it
            yield from self._open("message")
            yield from self._close()
        for call in calls:
            yield from self._call(call)
        document = self._document(made)
        yield self._event(f"response.{document['status']}", response=document)

    def _text(self, field: str, text: str) -> Iterator[dict[str, Any]]:
        kind = "reasoning" if field == "reasoning_content" else "message"
        if not self._items or self._items[-1]["type"] != kind:
            yield from self._close()
            yield from self._open(kind)
        item = self._items[-1]
        _part(item)["text"] += text
        yield self._event(f"{_stem(item)}.delta", **self._place(item), delta=text)

    def _open(self, kind: str) -> Iterator[dict[str, Any]]:
        number = len(self._items)
        item: Item
        part: Item
        if kind == "reasoning":
            item = {"id": f"rs_{number}_{self._id}", "type": kind, "summary": [], "encrypted_content": None}
            part, list_ = {"type": "summary_text", "text": ""}, "summary"
        else:
            item = {"id": f"msg_{number}_{self._id}", "type": kind, "role": "assistant"}
            item |= {"status": "in_progress", "content": []}
            part, list_ = {"type": "output_text", "text": "", "annotations": []}, "content"
        yield self._event("response.output_item.added", output_index=number, item={**item, list_: []})
        item[list_] = [part]
        self._items.append(item)
        stem = "content_part" if kind == "message" else "reasoning_summary_part"
        yield self._event(f"response.{stem}.added", **self._place(item), part={**part})

    def _close(self) -> Iterator[dict[str, Any]]:
        """Yield the end of the text that is being written, if there is one."""
        if not self._items or self._items[-1]["type"] not in ("reasoning", "message"):
            return
        item = self._items[-1]
        if item["type"] == "message":
            item["status"] = "completed"
        place, part = self._place(item), _part(item)
        yield self._event(f"{_stem(item)}.done", **place, text=part["text"])
        stem = "content_part" if item["type"] == "message" else "reasoning_summary_part"
        yield self._event(f"response.{stem}.done", **place, part=part)
        yield self._event("response.output_item.done", output_index=place["output_index"], item=item)

    def _call(self, call: dict[str, Any]) -> Iterator[dict[str, Any]]:
        function = call["function"]
        asked = self._asked
        origins = asked.origins if isinstance(asked, ResponsesRequest) else {}
        origin = origins.get(function["name"], Origin(function["name"]))
        common: Item = {"call_id": call["id"], "name": origin.name, "status": "completed"}
        if origin.namespace is not None:
            common["namespace"] = origin.namespace
        if origin.custom:
            kind, key = "custom_tool_call", INPUT
            text = str(json.loads(function["arguments"]).get(INPUT, ""))
        else:
            kind, key, text = "function_call", "arguments", function["arguments"]
        number = len(self._items)
        item = {"id": f"fc_{number}_{self._id}", "type": kind, key: text, **common}
        self._items.append(item)
        begun = {**item, key: "", "status": "in_progress"}
        yield self._event("response.output_item.added", output_index=number, item=begun)
        place = {"item_id": item["id"], "output_index": number}
        yield self._event(f"response.{kind}_{key}.delta", **place, delta=text)
        yield self._event(f"response.{kind}_{key}.done", **place, **{key: text})
        yield self._event("response.output_item.done", output_index=number, item=item)

    def _document(self, made: Completion) -> dict[str, Any]:
        cut = made.finish_reason == "length"
        return {
            **self._head,
            "status": "incomplete" if cut else "completed",
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
            "output": self._items,
            "usage": {
                "input_tokens": len(self._prompt),
                "input_tokens_details": {"cached_tokens": made.cached},
                "output_tokens": len(made.tokens),
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": len(self._prompt) + len(made.tokens),
            },
            **self._tokens(made),
        }

    @property
    def _head(self) -> dict[str, Any]:
        return {
            "id": f"resp_{self._id}",
            "object": "response",
            "created_at": self._created,
            "model": self._asked.model,
            "error": None,
            "incomplete_details": None,
            "parallel_tool_calls": self._asked.parallel_tool_calls is not False,
            "tool_choice": "auto",
            "tools": [],
        }

    def _place(self, item: Item) -> dict[str, Any]:
        part = "content_index" if item["type"] == "message" else "summary_index"
        return {"item_id": item["id"], "output_index": len(self._items) - 1, part: 0}

    def _event(self, kind: str, **data: Any) -> dict[str, Any]:
        return {"type": kind, "sequence_number": next(self._numbers), **data}


def _stem(item: Item) -> str:
    return "response.output_text" if item["type"] == "message" else "response.reasoning_summary_text"


def _part(item: Item) -> Item:
    part: Item = (item["content"] if item["type"] == "message" else item["summary"])[0]
    return part
