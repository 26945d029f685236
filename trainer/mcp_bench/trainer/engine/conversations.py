"""The exact tokens of conversations, so that a policy is trained on what it sampled.

An agent sends its whole history with each request, as text. Rendered and tokenized again, the model's own
answers may become other tokens: arguments are written anew, and text has several tokenizations
(https://github.com/huggingface/trl/issues/5224). Here an answer keeps its tokens, and only what came after it
is rendered. A history that an agent has rewritten is rendered as a whole.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from dataclasses import dataclass
from hashlib import sha256
from itertools import takewhile
from typing import Any

from mcp_bench.trainer.engine.api.chat_request import ChatRequest, Message, text_of
from mcp_bench.trainer.engine.load import Loaded
from mcp_bench.trainer.engine.prompt import render
from mcp_bench.trainer.engine.sequence import Completion

MOST = 4096
"""Conversations that are remembered. Those used longest ago are forgotten first."""
OTHER = "\ufffc"
"""In place of a text, to see in a prompt where that text begins."""


@dataclass(frozen=True)
class Known:
    """A conversation up to an answer of the model."""

    tokens: tuple[int, ...]
    """Prompt and answer."""
    ended: bool
    """Whether the answer has the token that ends it."""
    thought: bool
    """Whether the answer has a thought."""


class Conversations:
    """Remembers the tokens of conversations by their messages."""

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded
        self._known: OrderedDict[str, Known] = OrderedDict()

    def prompt(self, request: ChatRequest, episode: str) -> list[int] | None:
        """Return the prompt of a request that continues a known conversation of an episode, or None."""
        answers = [at for at, message in enumerate(request.messages, 1) if message.role == "assistant"]
        for end in reversed(answers):
            known = self._known.get(self._key(episode, request, request.messages[:end]))
            if known is not None:
                return self._continued(request, end, known)
        return None

    def add(
        self, request: ChatRequest, episode: str, made: Completion, prompt: list[int], answer: dict[str, Any]
    ) -> None:
        """Remember a conversation with the answer that was just given.

        Args:
            request: the request.
            episode: where it was made. The same text can have other tokens in another one.
            made: its answer.
            prompt: its tokens.
            answer: the message that the agent gets.
        """
        ended = bool(made.tokens) and made.tokens[-1] in self._loaded.ends
        if made.finish_reason == "stop" and not ended:
            return  # a stop string: the text that the agent gets is shorter than what was sampled
        key = self._key(episode, request, [*request.messages, Message.model_validate(answer)])
        self._known[key] = Known((*prompt, *made.tokens), ended, bool(answer.get("reasoning_content")))
        self._known.move_to_end(key)
        while len(self._known) > MOST:
            self._known.popitem(last=False)

    def _continued(self, request: ChatRequest, end: int, known: Known) -> list[int] | None:
        """Return the known tokens with those of what came later; None if the template cannot say it."""
        tokenizer = self._loaded.tokenizer
        whole = render(self._loaded, request, request.messages, generation=True)
        head = render(self._loaded, request, request.messages[:end], generation=False)
        if not whole.startswith(head):
            found = self._as_history(request, end, whole, known)
            if found is None:
                return None
            head = found
        found_end = self._end(request, end, head, whole, known)
        if found_end is None:
            return None
        start, mark = found_end
        # with the mark: some tokenizers look at what stands before, or give it the blanks that follow
        later = tokenizer.encode(whole[start:], add_special_tokens=False)
        number = tokenizer.convert_tokens_to_ids(mark)
        if not known.ended:
            return [*known.tokens, *later]
        if number in later:
            return [*known.tokens, *later[later.index(number) + 1 :]]
        return [*known.tokens, *tokenizer.encode(whole[start + len(mark) :], add_special_tokens=False)]

    def _end(
        self, request: ChatRequest, end: int, head: str, whole: str, known: Known
    ) -> tuple[int, str] | None:
        """Return where the token that ended an answer is in a prompt, and its text; None if it is not there.

        Most templates write it after the answer. In GLM's, it is the one that begins the next message.
        """
        decode = self._loaded.tokenizer.decode
        marks = {decode([token], skip_special_tokens=False): token for token in self._loaded.ends}
        asked = render(self._loaded, request, request.messages[: end - 1], generation=True)
        both = takewhile(lambda pair: pair[0] == pair[1], zip(asked, head, strict=False))
        begun = sum(1 for _ in both)  # earlier messages may end with the same token
        start, mark = max((head.rfind(mark, max(0, begun - len(mark) + 1)), mark) for mark in marks)
        if start >= 0:
            return start, mark
        following = next((mark for mark in marks if whole.startswith(mark, len(head))), None)
        if following is None or (known.ended and known.tokens[-1] != marks[following]):
            return None  # what follows is not what the model ended its answer for
        return len(head), following

    def _as_history(self, request: ChatRequest, end: int, whole: str, known: Known) -> str | None:
        """Return the beginning of a prompt up to the answer, for a template that writes its last one apart.

        Qwen3's puts an empty thought before the last answer, and none before earlier ones. A template that
        drops what was said, such as thoughts of earlier turns, rewrites the history: None.
        """
        messages = request.messages
        asked = render(self._loaded, request, messages[: end - 1], generation=True)
        if known.thought or end == len(messages) or not whole.startswith(asked):
            return None
        replaced = messages[end].model_copy(update={"content": OTHER})
        changed = [*messages[:end], replaced, *messages[end + 1 :]]
        pairs = zip(whole, render(self._loaded, request, changed, generation=True), strict=False)
        return whole[: next((at for at, (one, other) in enumerate(pairs) if one != other), 0)]

    def _key(self, episode: str, request: ChatRequest, messages: list[Message]) -> str:
        """Return a hash of messages and tools. The form of arguments does not count: the tokens are known."""
        spoken = [_canonical(message) for message in messages]
        text = json.dumps([episode, request.offered, request.chat_template_kwargs, spoken], sort_keys=True)
        return sha256(text.encode()).hexdigest()


def _canonical(message: Message) -> list[Any]:
    made = message.model_dump(exclude_unset=True)
    calls = [
        [call.get("id"), call["function"]["name"], _value(call["function"].get("arguments"))]
        for call in made.get("tool_calls") or ()
    ]
    return [message.role, text_of(message.content), calls, made.get("tool_call_id")]


def _value(arguments: Any) -> Any:
    try:
        return json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return arguments
