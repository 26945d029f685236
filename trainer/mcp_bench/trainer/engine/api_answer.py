"""The answers of OpenAI's chat API, whole or as a stream of chunks."""

from __future__ import annotations

import json
import secrets
import string
import time
from collections.abc import Iterator, Sequence
from typing import Any

from mcp_bench.trainer.chat.answer import Answer
from mcp_bench.trainer.engine.load import Loaded
from mcp_bench.trainer.engine.sampling import Chosen
from mcp_bench.trainer.engine.sequence import Completion

LETTERS = string.ascii_letters + string.digits


class Reply:
    """The answer to one request."""

    def __init__(
        self, loaded: Loaded, model: str, prompt: Sequence[int], tools: Sequence[dict[str, Any]], *,
        opened: bool, token_ids: bool, version: str | None = None,
    ) -> None:  # fmt: skip
        """Begin an answer.

        Args:
            loaded: the checkpoint that answers.
            model: its name.
            prompt: the prompt's tokens.
            tools: what the answer may call.
            opened: whether the prompt ends inside of a thought.
            token_ids: whether to return the tokens of prompt and answer.
            version: the version of the weights, for `system_fingerprint`.
        """
        self._loaded, self._prompt, self._tools = loaded, prompt, tools
        self._opened, self._token_ids = opened, token_ids
        self._head = {"id": f"chatcmpl-{secrets.token_hex(12)}", "created": int(time.time()), "model": model}
        if version is not None:
            self._head["system_fingerprint"] = version
        self._made: dict[str, Any] | None = None
        self._sent = {"reasoning_content": "", "content": ""}

    def whole(self, made: Completion) -> dict[str, Any]:
        """Return the answer as one document."""
        choice = {"index": 0, "message": self.message(made), **self._end(made, self._read(made))}
        document = {
            **self._head,
            "object": "chat.completion",
            "choices": [choice],
            "usage": self._usage(made),
        }
        if self._token_ids:
            document["prompt_token_ids"] = list(self._prompt)
        return document

    def message(self, made: Completion) -> dict[str, Any]:
        """Return the answer as a message, with the same ids of its calls each time."""
        if self._made is None:
            answer = self._read(made)
            self._made = {"role": "assistant", "content": answer.content}
            if answer.reasoning is not None:
                self._made["reasoning_content"] = answer.reasoning
            if answer.calls:
                self._made["content"] = answer.content or None
                self._made["tool_calls"] = _calls(answer)
        return self._made

    def begin(self) -> dict[str, Any]:
        """Return the first chunk."""
        chunk = self._chunk({"role": "assistant", "content": ""})
        if self._token_ids:
            chunk["prompt_token_ids"] = list(self._prompt)
        return chunk

    def more(self, text: str) -> Iterator[dict[str, Any]]:
        """Yield chunks with what is new and certain in the answer's text so far."""
        reasoning, content = self._loaded.parser.certain(text, self._tools, opened=self._opened)
        yield from self._new(reasoning, content)

    def end(self, made: Completion, *, usage: bool) -> Iterator[dict[str, Any]]:
        """Yield the last chunks: the rest of the text, the calls, the reason for the end, and the usage."""
        answer = self._read(made)
        yield from self._new(answer.reasoning or "", answer.content)
        for index, call in enumerate(self.message(made).get("tool_calls", ())):
            yield self._chunk({"tool_calls": [{"index": index, **call}]})
        last = self._chunk({})
        last["choices"][0] |= self._end(made, answer)
        yield last
        if usage:
            yield {**self._head, "object": "chat.completion.chunk", "choices": [], "usage": self._usage(made)}

    def _new(self, reasoning: str, content: str) -> Iterator[dict[str, Any]]:
        for field, text in (("reasoning_content", reasoning), ("content", content)):
            sent = self._sent[field]
            if len(text) > len(sent) and text.startswith(sent):
                self._sent[field] = text
                yield self._chunk({field: text[len(sent) :]})

    def _read(self, made: Completion) -> Answer:
        return self._loaded.parser.parse(made.text, self._tools, opened=self._opened)

    def _end(self, made: Completion, answer: Answer) -> dict[str, Any]:
        reason = "tool_calls" if answer.calls and made.finish_reason == "stop" else made.finish_reason
        ended: dict[str, Any] = {"finish_reason": reason, "logprobs": None}
        if made.chosen:
            ended["logprobs"] = {"content": [self._logprob(one) for one in made.chosen]}
        if self._token_ids:
            ended["token_ids"] = list(made.tokens)
        return ended

    def _logprob(self, chosen: Chosen) -> dict[str, Any]:
        own = (chosen.token, chosen.logprob if chosen.logprob is not None else 0.0)
        return {**self._token(*own), "top_logprobs": [self._token(*one) for one in chosen.top]}

    def _token(self, token: int, logprob: float) -> dict[str, Any]:
        text = self._loaded.tokenizer.decode([token], skip_special_tokens=False)
        # JSON has no infinity: the least number that OpenAI documents
        return {"token": text, "logprob": max(logprob, -9999.0), "bytes": list(text.encode())}

    def _usage(self, made: Completion) -> dict[str, Any]:
        return {
            "prompt_tokens": len(self._prompt),
            "completion_tokens": len(made.tokens),
            "total_tokens": len(self._prompt) + len(made.tokens),
            "prompt_tokens_details": {"cached_tokens": made.cached},
        }

    def _chunk(self, delta: dict[str, Any]) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": None, "logprobs": None}
        return {**self._head, "object": "chat.completion.chunk", "choices": [choice]}


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


def event(document: dict[str, Any]) -> str:
    """Return a document as a server-sent event."""
    return f"data: {json.dumps(document, ensure_ascii=False)}\n\n"
