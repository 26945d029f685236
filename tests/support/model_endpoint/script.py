"""Scripts for the endpoint, and the turn of a script that answers a request.

Nothing here depends on a dialect. The endpoint keeps no state: the task's prompt in a request selects the
script, and the number of tool results in it the step.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

HARMLESS = "A short note"
"""The answer to requests without a script: titles, summaries, warm-ups."""


@dataclass(frozen=True)
class ScriptedCall:
    """A tool call by the tool's bare name.

    If the dialect sends arguments as text, text is sent unchanged, malformed or not.
    """

    name: str
    arguments: dict[str, Any] | str = field(default_factory=dict)


@dataclass(frozen=True)
class Step:
    """One turn of the model: parallel calls, or, without any, the final text."""

    calls: tuple[ScriptedCall, ...] = ()
    text: str = ""
    reasoning: str = ""
    stop: str = ""
    """Why the model ends its turn early, in the word of the dialect, such as `refusal`."""


@dataclass(frozen=True)
class Script:
    """The steps for one task. An `endless` one starts again after its last tool calls.

    An `obedient` model follows a request's constraints: one call at a time, and a call in every turn, so that it
    ends with the tool `finish` if that is offered.
    """

    prompt: str
    steps: tuple[Step, ...]
    endless: bool = False
    obedient: bool = False
    without_tools: bool = False
    """Whether it also answers requests that offer no tools."""

    def step_after(self, results: int) -> Step:
        """Return the step to play when `results` tool results are in the conversation.

        If only some of the parallel calls have results, the step has the others.
        """
        acting = [step for step in self.steps if step.calls]
        if self.endless:
            results %= sum(len(step.calls) for step in acting)
        for step in acting:
            if results < len(step.calls):
                return replace(step, calls=step.calls[results:])
            results -= len(step.calls)
        return next((step for step in self.steps if not step.calls), Step(text="Done."))


def script_from_reference(
    prompt: str,
    reference: dict[str, Any],
    *,
    parallel: int = 1,
    reasoning: bool = True,
    obedient: bool = False,
) -> Script:
    """Return a script that plays `{"calls": [{"name", "arguments"}], "answer": text}`.

    Args:
        parallel: number of calls in each turn.
        reasoning: whether every turn has reasoning.
    """
    calls = [ScriptedCall(call["name"], call.get("arguments", {})) for call in reference["calls"]]
    groups = [tuple(calls[at : at + parallel]) for at in range(0, len(calls), parallel)]

    def thought(number: int) -> str:
        return f"Step {number}: think first." if reasoning else ""

    steps = [Step(group, reasoning=thought(number)) for number, group in enumerate(groups, 1)]
    final = Step(text=reference.get("answer") or "Done.", reasoning=thought(len(steps) + 1))
    return Script(prompt, (*steps, final), obedient=obedient)


@dataclass(frozen=True)
class OfferedTool:
    """A tool of a request; `namespace` if the dialect groups tools."""

    name: str
    namespace: str | None = None


@dataclass(frozen=True)
class Conversation:
    """The content of a request, independent of the dialect."""

    texts: tuple[str, ...]
    """Text of the system, user and assistant turns, in order, without tool results."""
    results: int
    """Number of tool results."""
    tools: tuple[OfferedTool, ...] = ()
    model: str = ""
    stream: bool = False
    one_action: bool = False
    """Whether it requires exactly one tool call."""


@dataclass(frozen=True)
class Call:
    """A call to send, by the name under which the agent offered the tool."""

    id: str
    name: str
    arguments: dict[str, Any] | str
    namespace: str | None = None

    @property
    def arguments_text(self) -> str:
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)


@dataclass(frozen=True)
class TokenUsage:
    """Tokens of one turn. `cached` is part of `input`, `reasoning` is part of `output`."""

    input: int
    output: int
    cached: int = 0
    reasoning: int = 0


@dataclass(frozen=True)
class Turn:
    """The answer for a dialect to write. The ids of its parts derive from `id`."""

    id: str
    model: str
    text: str
    reasoning: str
    calls: tuple[Call, ...]
    usage: TokenUsage
    stop: str = ""
    """As for `Step`."""


def choose_script(conversation: Conversation, scripts: Iterable[Script]) -> Script | None:
    """Return the script for a request, or None if it offers no tools (but see `Script`) or has no known prompt.

    If several prompts match, those whose tools are offered come first, then the longest prompt.
    """
    text = _plain(" ".join(conversation.texts))
    fitting = [
        script
        for script in scripts
        if (conversation.tools or script.without_tools) and _plain(script.prompt) in text
    ]

    def rank(script: Script) -> tuple[bool, int]:
        names = [call.name for step in script.steps for call in step.calls]
        return all(_find(name, conversation.tools) for name in names), len(script.prompt)

    return max(fitting, key=rank, default=None)


def play(conversation: Conversation, script: Script | None, turn_id: str) -> Turn:
    """Return the answer to a request. Equal requests get equal answers, except for the ids."""
    step = script.step_after(conversation.results) if script else Step(text=HARMLESS)
    if script and script.obedient and conversation.one_action:
        step = one_action(step)
    calls = tuple(
        Call(f"call_{turn_id}_{number}", *_offered(call, conversation.tools))
        for number, call in enumerate(step.calls)
    )
    spoken = sum(len(part) for part in (*conversation.texts, step.text, step.reasoning))
    reasoning = len(step.reasoning) // 4
    usage = TokenUsage(
        input=100 + spoken // 4 + 30 * conversation.results,
        output=7 + len(step.text) // 4 + reasoning + 11 * len(calls),
        cached=64 if conversation.results else 0,
        reasoning=reasoning,
    )
    return Turn(turn_id, conversation.model, step.text, step.reasoning, calls, usage, step.stop)


def one_action(step: Step) -> Step:
    """Return a step as one tool call: its first one, or the one that ends the work."""
    calls = step.calls[:1] or (ScriptedCall("finish", {"answer": step.text}),)
    return Step(calls, step.text if step.calls else "", step.reasoning)


def _offered(
    call: ScriptedCall, tools: Sequence[OfferedTool]
) -> tuple[str, dict[str, Any] | str, str | None]:
    tool = _find(call.name, tools) or OfferedTool(call.name)  # play a tool that is not offered, too
    return tool.name, call.arguments, tool.namespace


def _find(bare: str, tools: Sequence[OfferedTool]) -> OfferedTool | None:
    """Return the offered tool for a bare name.

    Agents put the server's name in front, so the shortest name with the right end is the tool. Some keep a dot
    that others replace, some join the two names by a dash, and some add a hash of seven digits to a changed
    name.
    """
    plain = {tool: re.sub(r"[.-]", "_", f"_{tool.name}") for tool in tools}
    end = re.sub(r"[.-]", "_", f"_{bare}")
    hashed = re.compile(rf"{re.escape(end)}_[0-9a-z]{{7}}$")
    fitting = [tool for tool in tools if plain[tool].endswith(end)]
    fitting = fitting or [tool for tool in tools if hashed.search(plain[tool])]
    return min(fitting, key=lambda tool: len(tool.name), default=None)


def _plain(text: str) -> str:
    return " ".join(text.split())
