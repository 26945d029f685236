"""The forms in which models write tool calls, by vLLM's names for their parsers.

Each form reads calls out of an answer's text, and gives the pieces of the grammar that holds decoding to
calls that fit the tools' schemas. A malformed call is never an error: the answer is then text, as the model
wrote it.

transformers' `parse_response` is not used. It needs a `response_template`, which few checkpoints have, it
raises on malformed calls, and it has no grammars.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from mcp_bench.servers.errors import WrongUseError, suggestion
from mcp_bench.trainer.chat.answer import Answer, Call, MalformedCallError
from mcp_bench.trainer.chat.grammar import Pieces
from mcp_bench.trainer.chat.harmony import Harmony
from mcp_bench.trainer.chat.json_calls import Hermes, Llama3Json, Mistral
from mcp_bench.trainer.chat.tagged_calls import Glm45, Qwen3Coder

Tools = Sequence[Mapping[str, Any]]
"""Tools in the API's form: `{"type": "function", "function": {"name": ..., "parameters": SCHEMA}}`."""

OPEN_THOUGHT, CLOSE_THOUGHT = "<think>", "</think>"
HARMONY = "openai_gptoss"
THINK_TAGS = ("qwen3", "glm45", "deepseek_r1")
"""vLLM's reasoning parsers for thoughts in `<think>` tags. One parser reads them all."""


class CallFormat(Protocol):
    """One form of calls."""

    name: str
    marks: tuple[str, ...]
    """The tokens and strings of the form. They are kept when an answer is decoded."""

    def split(self, text: str, tools: Tools) -> tuple[str, tuple[Call, ...]]:
        """Return the text outside of calls, and the calls.

        Raises:
            MalformedCallError: a call is not in the form.
        """

    def begin(self, text: str) -> int | None:
        """Return the index at which the first call begins, as soon as the text shows it."""

    def held(self, text: str) -> int:
        """Return the length of the text's start that no later token can make part of a call."""

    def rules(self, tools: Tools, pieces: Pieces) -> tuple[str, str | None]:
        """Return the expression of one call, and what stands between two calls; None: there is only one."""


def find_format(name: str, template: str = "") -> CallFormat:
    """Return the form with vLLM's name. `template` decides between versions of a form (Mistral's).

    Raises:
        WrongUseError: the name is unknown here.
    """
    found: dict[str, CallFormat] = {
        "hermes": Hermes(),
        "qwen3_coder": Qwen3Coder(),
        "qwen3_xml": Qwen3Coder(),
        "llama3_json": Llama3Json(),
        "mistral": Mistral(listed="[ARGS]" not in template),
        "openai": Harmony(),
        "glm45": Glm45(),
    }
    if name not in found:
        raise WrongUseError(
            f"this engine does not know the tool call parser {name!r}{suggestion(name, found)}: it has "
            f"{', '.join(found)}. vLLM may have it: use the engine vllm"
        )
    return found[name]


class AnswerParser:
    """Reads whole answers, and the part of an unfinished answer that is certain."""

    def __init__(self, calls: CallFormat, reasoning: str | None) -> None:
        """Read calls in the form `calls`, and thoughts by vLLM's name of the parser; None: no thoughts.

        Raises:
            WrongUseError: the reasoning parser is unknown here.
        """
        known = (*THINK_TAGS, HARMONY)
        if reasoning is not None and reasoning not in known:
            raise WrongUseError(
                f"this engine does not know the reasoning parser {reasoning!r}: it has {', '.join(known)} "
                "and none"
            )
        self.calls = calls
        self.thinks = reasoning in THINK_TAGS
        self.marks = (*calls.marks, *((OPEN_THOUGHT, CLOSE_THOUGHT) if self.thinks else ()))

    def opened(self, prompt: str) -> bool:
        """Return whether the prompt ends inside of a thought, as some templates begin the answer."""
        return self.thinks and prompt.rstrip().endswith(OPEN_THOUGHT)

    def parse(self, text: str, tools: Tools = (), *, opened: bool = False) -> Answer:
        """Return a finished answer's parts.

        Args:
            text: the answer, with the marks of its form.
            tools: the tools that were offered. Without tools, nothing is a call.
            opened: whether the prompt ends inside of a thought.
        """
        if isinstance(self.calls, Harmony):
            return self.calls.parse(text, tools)
        reasoning, said = self._thought(text, opened)
        calls: tuple[Call, ...] = ()
        if tools and said is not None:
            try:
                said, calls = self.calls.split(said, tools)
            except MalformedCallError:
                calls = ()
        content = said or ""
        return Answer(content.strip("\n") if reasoning is not None else content, reasoning, calls)

    def certain(self, text: str, tools: Tools = (), *, opened: bool = False) -> tuple[str, str]:
        """Return reasoning and content of an unfinished answer, as far as no later token changes them.

        What a later token adds begins with what is returned here, so a stream can send the differences.
        """
        if isinstance(self.calls, Harmony):
            return self.calls.certain(text, tools)
        if not self.thinks:
            return "", self._certain_content(text, tools)
        if not opened and not text.lstrip().startswith(OPEN_THOUGHT):
            if OPEN_THOUGHT.startswith(text.lstrip()):
                return "", ""
            return "", self._certain_content(text, tools)
        reasoning, said = self._thought(text, opened)
        if said is None:
            return _settled(reasoning or "", CLOSE_THOUGHT), ""
        return reasoning or "", self._certain_content(said.lstrip("\n"), tools)

    def thinking(self, text: str, *, opened: bool = False) -> bool:
        """Return whether the text ends inside of a thought, where nothing is a call."""
        return self.thinks and self._thought(text, opened)[1] is None

    def _thought(self, text: str, opened: bool) -> tuple[str | None, str | None]:
        """Return the thought (or None), and what follows it (None: it has not ended)."""
        if not self.thinks:
            return None, text
        begun = text.lstrip().startswith(OPEN_THOUGHT)
        if not opened and not begun:
            return None, text
        inner = text.lstrip().removeprefix(OPEN_THOUGHT) if begun else text
        thought, close, rest = inner.partition(CLOSE_THOUGHT)
        return thought.strip("\n"), rest if close else None

    def _certain_content(self, text: str, tools: Tools) -> str:
        content = text[: self.calls.held(text)] if tools else text
        return content.rstrip() if tools or self.thinks else content


def _settled(text: str, mark: str) -> str:
    """Return a text without a beginning of `mark` at its end, and without white space there."""
    for length in range(min(len(mark) - 1, len(text)), 0, -1):
        if text.endswith(mark[:length]):
            text = text[:-length]
            break
    return text.rstrip()
