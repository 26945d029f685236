"""Replacement of secrets and e-mail addresses by placeholders.

Placeholders are numbered within an episode. A value has the same placeholder everywhere in it, so an address
that the agent looked up and then wrote to is still recognisable as one address. A value that is found by its
context once (`api_key=...`) is also replaced where it stands alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

from mcp_bench.recorder.curation.sensitive import START, Span, emails, is_secret, secrets
from mcp_bench.recorder.trajectory import Message, ToolSchema, Trajectory

_FINDERS: dict[str, Callable[[str], Iterator[Span]]] = {"secrets": secrets, "emails": emails}

_Role = Literal["text", "secret", "key"]
"""What a string is: a text, the value of a field whose name suggests a secret, or a key of a JSON object."""
_Texts = Callable[[str, _Role], str]


def redact(trajectories: Sequence[Trajectory], kinds: Sequence[str]) -> list[Trajectory]:
    """Return trajectories with placeholders. A value has the same one in all of them.

    Args:
        trajectories: The conversations of episodes.
        kinds: What to replace: `secrets`, `emails` or both.
    """
    found = _Found(kinds)
    for one in trajectories if kinds else ():
        _rewritten(one, found.look)
    if not found.placeholders:
        return list(trajectories)
    return [_rewritten(one, found.replace) for one in trajectories]


def redact_episode(
    trajectory: Trajectory, texts: dict[str, Any], kinds: Sequence[str]
) -> tuple[Trajectory, dict[str, Any]]:
    """Return the trajectory and other texts of its episode, with the same placeholders in both.

    Args:
        trajectory: The conversation of the episode.
        texts: A JSON object with its other texts, such as its answer.
        kinds: as for `redact`.
    """
    if not kinds:
        return trajectory, texts
    found = _Found(kinds)
    _rewritten(trajectory, found.look)
    _json(texts, found.look)
    if not found.placeholders:
        return trajectory, texts
    return _rewritten(trajectory, found.replace), _json(texts, found.replace)


def redact_texts(document: dict[str, Any], kinds: Sequence[str]) -> dict[str, Any]:
    """Return a JSON object about one episode with placeholders in all of its texts.

    Args:
        document: such as `show --json` prints.
        kinds: as for `redact`.
    """
    found = _Found(kinds)
    _json(document, found.look)
    redacted: dict[str, Any] = _json(document, found.replace) if found.placeholders else document
    return redacted


class _Found:
    def __init__(self, kinds: Sequence[str]) -> None:
        self.placeholders: dict[str, str] = {}
        self._finders = [_FINDERS[kind] for kind in kinds]
        self._fields = "secrets" in kinds
        self._counts: dict[str, int] = {}
        self._alone: re.Pattern[str] | None = None

    def look(self, text: str, role: _Role) -> str:
        """Collect the values to replace, and return the text unchanged."""
        if role == "secret" and self._fields and text:
            self._note(text, "SECRET")
            return text
        for start, end, kind, _ in sorted(self._spans(text)):
            self._note(text[start:end], kind)
        return text

    def replace(self, text: str, role: _Role) -> str:
        """Return the text with placeholders for every value that `look` found in any text."""
        if role == "secret" and self._fields and text:
            return self.placeholders[text]
        spans = [*self._spans(text)]
        if role != "key":  # a password may be a word that is also the name of a field
            spans += [Span(*match.span()) for match in self._standing_alone().finditer(text)]
        parts, position = [], 0
        for start, end, _, quote in sorted(spans, key=lambda span: (span.start, -span.end, not span.quote)):
            if start >= position and text[start:end] in self.placeholders:
                parts += [text[position:start], quote, self.placeholders[text[start:end]], quote]
                position = end
        return "".join([*parts, text[position:]])

    def _spans(self, text: str) -> Iterator[Span]:
        for find in self._finders:
            yield from find(text)

    def _note(self, value: str, kind: str) -> None:
        if value not in self.placeholders:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self.placeholders[value] = f"[{kind}_{self._counts[kind]}]"

    def _standing_alone(self) -> re.Pattern[str]:
        if self._alone is None:
            # alone, a short value or a plain word can mean something else
            values = [value for value in self.placeholders if len(value) >= 8 and not value.isalpha()]
            either = "|".join(map(re.escape, sorted(values, key=len, reverse=True))) or r"(?!)"
            self._alone = re.compile(rf"{START}(?:{either})(?![A-Za-z0-9_])")
        return self._alone


def _rewritten(trajectory: Trajectory, texts: _Texts) -> Trajectory:
    return trajectory.model_copy(
        update={
            "messages": [_message(message, texts) for message in trajectory.messages],
            "tools": [
                ToolSchema.model_validate(_json(tool.model_dump(), texts)) for tool in trajectory.tools
            ],
        }
    )


def _message(message: Message, texts: _Texts) -> Message:
    calls = [
        call.model_copy(
            update={
                "function": call.function.model_copy(
                    update={"arguments": _json(call.function.arguments, texts)}
                )
            }
        )
        for call in message.tool_calls
    ]
    return message.model_copy(
        update={
            "reasoning": None if message.reasoning is None else texts(message.reasoning, "text"),
            "content": None if message.content is None else texts(message.content, "text"),
            "tool_calls": calls,
        }
    )


def _json(value: Any, texts: _Texts, role: _Role = "text") -> Any:
    if isinstance(value, str):
        return texts(value, role)
    if role == "secret" and isinstance(value, int | float) and not isinstance(value, bool):
        found = texts(str(value), role)
        return value if found == str(value) else found
    if isinstance(value, list):
        return [_json(item, texts, role) for item in value]
    if isinstance(value, dict):
        return {
            texts(key, "key"): _json(item, texts, "secret" if is_secret(key) else "text")
            for key, item in value.items()
        }
    return value
