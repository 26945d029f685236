"""A stand-in for an engine: it plays a script instead of asking a model, token by token as a policy would."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

from mcp_bench.trainer.engine.decoder import Decoder
from mcp_bench.trainer.engine.load import Loaded
from mcp_bench.trainer.engine.sampling import Chosen
from mcp_bench.trainer.engine.sequence import Completion, Request

LOGPROB = -0.5
"""Of every token. A float32 has this number exactly."""
Script = Callable[[str], str]
"""Returns the answer to a prompt, both as text."""


class ScriptedEngine(Decoder):
    """Answers at once, in the caller's thread."""

    def __init__(self, tokenizer: Any, end: int, script: Script) -> None:
        self._tokenizer, self._end, self._script = tokenizer, end, script
        self.answered: list[tuple[list[int], tuple[int, ...]]] = []
        """Prompt and answer of each request."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def weights_changed(self) -> None:
        """There are none."""

    def forget(self) -> None:
        """Nothing is kept."""

    def check(self) -> None:
        """It cannot end."""

    def submit(self, request: Request) -> None:
        text = self._script(self._tokenizer.decode(request.prompt, skip_special_tokens=False))
        tokens = (*self._tokenizer.encode(text, add_special_tokens=False), self._end)
        cut = len(tokens) > request.most_tokens
        tokens = tokens[: request.most_tokens]
        if cut:
            text = self._tokenizer.decode(tokens, skip_special_tokens=False)
        self.answered.append((request.prompt, tokens))
        if request.on_text is not None:
            for end in (len(text) // 2, len(text)):
                request.on_text(text[:end])
        chosen = tuple(Chosen(token, LOGPROB) for token in tokens)
        request.done.set_result(Completion(tokens, text, chosen, "length" if cut else "stop", 0))


def scripted(loaded: Loaded, script: Script) -> tuple[Loaded, ScriptedEngine]:
    """Return a checkpoint that plays a script, and its engine."""
    engine = ScriptedEngine(loaded.tokenizer, loaded.ends[0], script)
    return replace(loaded, engine=engine, positions=None, most_tokens=None), engine


def calls_then_text(calls: Sequence[Mapping[str, Any]], text: str) -> Script:
    """Return a script: one call in each turn, by the names that the prompt offers, then a text.

    Arguments are written with more space than any tokenizer of a template would write them.
    """

    def answer(prompt: str) -> str:
        turn = prompt.count("<|im_start|>assistant") - 1
        offered = re.findall(r'"name": "([^"]+)"', prompt.partition("\n</tools>")[0])
        if turn >= len(calls) or not offered:
            return text
        call = calls[turn]
        name = next(name for name in offered if name == call["name"] or name.endswith(f"__{call['name']}"))
        written = json.dumps({"name": name, "arguments": call["arguments"]}, indent=2, ensure_ascii=False)
        return f"I call {call['name']}.\n<tool_call>\n{written}\n</tool_call>"

    return answer
