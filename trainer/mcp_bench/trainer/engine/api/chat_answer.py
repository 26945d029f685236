"""The answers of OpenAI's chat API, whole or as a stream of chunks."""

from __future__ import annotations

import json
import secrets
import string
import time
from collections.abc import Iterator, Sequence
from typing import Any

from mcp_bench.trainer.chat.answer import Answer
from mcp_bench.trainer.engine.api.chat_request import ChatRequest
from mcp_bench.trainer.engine.api.errors import ApiError
from mcp_bench.trainer.engine.load import Loaded
from mcp_bench.trainer.engine.sampling import Chosen
from mcp_bench.trainer.engine.sequence import UNFINISHED, Completion

LETTERS = string.ascii_letters + string.digits


class Reply:
    """The answer to one request, in the form of the chat API. Other APIs have subclasses."""

    last = "data: [DONE]\n\n"
    """What ends a stream."""

    def __init__(
        self,
        loaded: Loaded,
        asked: ChatRequest,
        prompt: Sequence[int],
        *,
        opened: bool,
        token_ids: bool,
        version: str | None = None,
    ) -> None:
        """Begin an answer.

        Args:
            loaded: the checkpoint that answers.
            asked: the request.
            prompt: the prompt's tokens.
            opened: whether the prompt ends inside of a thought.
            token_ids: whether to return the tokens of prompt and answer.
            version: the version of the weights, for `system_fingerprint`.
        """
        self._loaded, self._asked, self._prompt, self._tools = loaded, asked, prompt, asked.callable
        self._opened, self._token_ids, self._version = opened, token_ids, version
        self._id, self._created = secrets.token_hex(12), int(time.time())
        self._made: dict[str, Any] | None = None
        self._sent = {"reasoning_content": "", "content": ""}

    @staticmethod
    def event(document: dict[str, Any]) -> str:
        """Return a document as a server-sent event."""
        return f"data: {json.dumps(document, ensure_ascii=False)}\n\n"

    @staticmethod
    def error(error: ApiError) -> dict[str, Any]:
        """Return an error as a document."""
        return error.document

    def message(self, made: Completion) -> dict[str, Any]:
        """Return the answer as a message of the chat API, with the same ids of its calls each time."""
        if self._made is None:
            answer = self._read(made)
            self._made = {"role": "assistant", "content": answer.content}
            if answer.reasoning is not None:
                self._made["reasoning_content"] = answer.reasoning
            if answer.calls:
                self._made["content"] = answer.content or None
                # as vLLM does it; an answer that is learned from stays as it was sampled
                one = self._asked.parallel_tool_calls is False and self._version is None
                self._made["tool_calls"] = _calls(answer)[: 1 if one else None]
        return self._made

    def whole(self, made: Completion) -> dict[str, Any]:
        """Return the answer as one document."""
        choice = {"index": 0, "message": self.message(made), **self._end(made)}
        document = {**self._head, "object": "chat.completion", "choices": [choice]}
        document["usage"] = self._usage(made)
        if self._token_ids:
            document["prompt_token_ids"] = list(self._prompt)
        return document

    def begin(self) -> Iterator[dict[str, Any]]:
        """Yield the first events."""
        chunk = self._chunk({"role": "assistant", "content": ""})
        if self._token_ids:
            chunk["prompt_token_ids"] = list(self._prompt)
        yield chunk

    def more(self, text: str) -> Iterator[dict[str, Any]]:
        """Yield events with what is new and certain in the answer's text so far."""
        yield from self._new(*self._loaded.parser.certain(text, self._tools, opened=self._opened))

    def end(self, made: Completion) -> Iterator[dict[str, Any]]:
        """Yield the last events: the rest of the text, the calls, the reason for the end, and the usage."""
        yield from self._rest(made)
        for index, call in enumerate(self.message(made).get("tool_calls", ())):
            yield self._chunk({"tool_calls": [{"index": index, **call}]})
        last = self._chunk({})
        last["choices"][0] |= self._end(made)
        yield last
        if self._asked.stream_options is not None and self._asked.stream_options.include_usage:
            usage = self._usage(made)
            yield {**self._head, "object": "chat.completion.chunk", "choices": [], "usage": usage}

    def _rest(self, made: Completion) -> Iterator[dict[str, Any]]:
        answer = self._read(made)
        yield from self._new(answer.reasoning or "", answer.content)

    def _new(self, reasoning: str, content: str) -> Iterator[dict[str, Any]]:
        for field, text in (("reasoning_content", reasoning), ("content", content)):
            sent = self._sent[field]
            if len(text) > len(sent) and text.startswith(sent):
                self._sent[field] = text
                yield from self._text(field, text[len(sent) :])

    def _text(self, field: str, text: str) -> Iterator[dict[str, Any]]:
        """Yield the events for more text of the answer or of its thought."""
        yield self._chunk({field: text})

    def _read(self, made: Completion) -> Answer:
        return self._loaded.parser.parse(made.text, self._tools, opened=self._opened)

    def _end(self, made: Completion) -> dict[str, Any]:
        called = "tool_calls" in self.message(made)
        reason = "tool_calls" if called and made.finish_reason == "stop" else made.finish_reason
        ended: dict[str, Any] = {"finish_reason": reason, "logprobs": None}
        if made.chosen:
            ended["logprobs"] = {"content": [self._logprob(one) for one in made.chosen]}
        if self._token_ids:
            ended["token_ids"] = list(made.tokens)
        return ended

    def _tokens(self, made: Completion) -> dict[str, Any]:
        """Return the tokens in the form that APIs without a form of their own get."""
        if not self._token_ids:
            return {}
        return {
            "system_fingerprint": self._version,
            "prompt_token_ids": list(self._prompt),
            "token_ids": list(made.tokens),
            "token_logprobs": [_finite(chosen.logprob) for chosen in made.chosen] or None,
        }

    def _logprob(self, chosen: Chosen) -> dict[str, Any]:
        own = (chosen.token, chosen.logprob)
        return {**self._token(*own), "top_logprobs": [self._token(*one) for one in chosen.top]}

    def _token(self, token: int, logprob: float | None) -> dict[str, Any]:
        text = self._loaded.tokenizer.decode([token], skip_special_tokens=False)
        grammars, content = self._loaded.grammars, text.encode()
        if UNFINISHED in text and grammars is not None:
            content = grammars.tokens.decode_bytes([token])  # transformers decodes whole characters only
        return {"token": text, "logprob": _finite(logprob), "bytes": list(content)}

    def _usage(self, made: Completion) -> dict[str, Any]:
        return {
            "prompt_tokens": len(self._prompt),
            "completion_tokens": len(made.tokens),
            "total_tokens": len(self._prompt) + len(made.tokens),
            "prompt_tokens_details": {"cached_tokens": made.cached},
        }

    @property
    def _head(self) -> dict[str, Any]:
        head: dict[str, Any] = {
            "id": f"chatcmpl-{self._id}",
            "created": self._created,
            "model": self._asked.model,
        }
        return head if self._version is None else {**head, "system_fingerprint": self._version}

    def _chunk(self, delta: dict[str, Any]) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": None, "logprobs": None}
        return {**self._head, "object": "chat.completion.chunk", "choices": [choice]}


def named_event(document: dict[str, Any]) -> str:
    """Return a server-sent event with the name that its document has as `type`."""
    return f"event: {document['type']}\n{Reply.event(document)}"


def _finite(logprob: float | None) -> float:
    return max(logprob or 0.0, -9999.0)  # JSON has no infinity: the least number that OpenAI documents


def _calls(answer: Answer) -> list[dict[str, Any]]:
    return [
        {
            # nine letters or digits: the template of Mistral's models refuses anything else
            "id": "".join(secrets.choice(LETTERS) for _ in range(9)),
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.arguments, ensure_ascii=False)},
        }
        for call in answer.calls
    ]
