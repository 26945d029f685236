"""Two attempts side by side: their calls aligned, so that the first one that differs is easy to see."""

from __future__ import annotations

import json
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from mcp_bench.bridge.viewer.conversation import Call, calls_of, conversation
from mcp_bench.bridge.viewer.words import verdict
from mcp_bench.recorder.cli.episode_document import episode_document
from mcp_bench.recorder.runs.reader import RunReader


@dataclass(frozen=True, slots=True)
class Row:
    """Calls that stand beside each other; None where the other side made no such call."""

    left: Call | None
    right: Call | None
    same_arguments: bool = False
    same_result: bool = False


def attempt(reader: RunReader, episode: str, cut_off: bool) -> dict[str, Any]:
    """Return what is shown of one side; `cut_off` as for `verdict`."""
    document, stored = episode_document(reader, episode), reader.episode(episode)
    turns = conversation(document)
    last = next((turn.text for turn in reversed(turns) if turn.role == "assistant" and turn.text), "")
    return {
        "episode": stored,
        "verdict": verdict(stored, cut_off),
        "document": document,
        "calls": calls_of(turns),
        "answer": stored.answer or last,
    }


def aligned(left: dict[str, Any], right: dict[str, Any]) -> list[Row]:
    """Return the calls of both sides in order, those of the same tool beside each other."""
    ours, theirs = left["calls"], right["calls"]
    matcher = SequenceMatcher(None, _keys(left), _keys(right), autojunk=False)
    rows: list[Row] = []
    for kind, i, i_end, j, j_end in matcher.get_opcodes():
        if kind == "equal":
            rows += [_row(left, right, i + at, j + at) for at in range(i_end - i)]
            continue
        names = SequenceMatcher(
            None,
            [call.name for call in ours[i:i_end]],
            [call.name for call in theirs[j:j_end]],
            autojunk=False,
        )
        for inner, a, a_end, b, b_end in names.get_opcodes():
            if inner == "equal":
                rows += [_row(left, right, i + a + at, j + b + at) for at in range(a_end - a)]
            else:
                rows += [Row(call, None) for call in ours[i + a : i + a_end]]
                rows += [Row(None, call) for call in theirs[j + b : j + b_end]]
    return rows


def _keys(side: dict[str, Any]) -> list[str]:
    return [f"{call.name} {_arguments(side, call)}" for call in side["calls"]]


def _arguments(side: dict[str, Any], call: Call) -> str:
    if call.number is None:
        return call.line
    return json.dumps(side["document"]["calls"][call.number - 1]["arguments"], sort_keys=True)


def _row(left: dict[str, Any], right: dict[str, Any], i: int, j: int) -> Row:
    ours, theirs = left["calls"][i], right["calls"][j]
    texts = [
        None if call.number is None else side["document"]["calls"][call.number - 1]["text"]
        for side, call in ((left, ours), (right, theirs))
    ]
    return Row(ours, theirs, _arguments(left, ours) == _arguments(right, theirs), texts[0] == texts[1])
