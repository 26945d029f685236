"""The conversation of an episode as text: numbered messages with times, long ones folded."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import click

from mcp_bench.recorder.cli.folding import Folding
from mcp_bench.servers.terminal.sanitize import sanitize_line

TEXT_LINES = 20
"""Lines to which the prompt, and what the agent says and thinks, are folded."""
DATA_LINES = 6
"""Lines to which arguments and results are folded."""
INDENT = "    "


def turns(document: dict[str, Any], folding: Folding) -> Iterator[str]:
    """Yield the lines of a conversation.

    A message has the number of its position, counted from 0, as captured model calls and evidence have it.
    Lines with text of agents are indented, so that it cannot pass for a heading.

    Args:
        document: of the episode, as `show --json` prints it.
        folding: how long texts are shown.
    """
    began = document["started_us"]
    for position, (message, moment) in enumerate(
        zip(document["messages"], document["timeline"], strict=True)
    ):
        yield ""
        number = click.style(f"{position:>2}", dim=True)
        role, times = _heading(message, moment, document["calls"], began)
        yield f"{number}  {role}{click.style(times, dim=True)}"
        yield from _body(message, moment, folding)


def _heading(
    message: dict[str, Any], moment: dict[str, Any], calls: Sequence[dict[str, Any]], began: int
) -> tuple[str, str]:
    """Return who says it and how it ended, and when."""
    if message["role"] == "tool":
        (number,) = moment["calls"] or (None,)
        name = sanitize_line(message.get("name") or "")
        heading = click.style(f"result of call {number or '-'}", bold=True) + f"  {name}  "
        outcome = calls[number - 1]["outcome"] if number else None
        words = {
            "ok": "ok",
            "tool_error": "error of the tool",
            "rpc_error": "protocol error",
            "transport_error": "no result",
            "cancelled": "cancelled",
        }
        said = "never reached the server" if number is None else words.get(outcome or "", "not ended")
        # of the agent's own tools, which are not recorded, it says itself whether they failed
        worked = outcome == "ok" if number else not message["is_error"]
        heading += click.style(said, fg="green" if worked else "red")
    elif moment["turn"]:
        heading = click.style(f"turn {moment['turn']}", bold=True)
    else:
        heading = click.style(sanitize_line(message["role"]), bold=True)
    return heading, _times(moment, began)


def _times(moment: dict[str, Any], began: int) -> str:
    """Return when a message was there, in seconds since the episode's start, and how long it took."""
    started, ended = moment["started_us"], moment["ended_us"]
    at = started if ended is None else ended
    if at is None:
        return ""
    took = f", took {_duration(ended - started)}" if started is not None and ended is not None else ""
    return f"  at {(at - began) / 1e6:.1f} s{took}"


def _duration(microseconds: int) -> str:
    return f"{microseconds / 1e6:.1f} s" if microseconds >= 1_000_000 else f"{microseconds / 1e3:.0f} ms"


def _size(count: int) -> str:
    return f"{count} bytes" if count < 1000 else f"{count / 1000:.0f} kB"


def _body(message: dict[str, Any], moment: dict[str, Any], folding: Folding) -> Iterator[str]:
    is_data = message["role"] == "tool"
    if message.get("reasoning"):
        yield from _folded("thinks  ", message["reasoning"], TEXT_LINES, folding, dim=True)
    if content := message.get("content"):
        for image in message.get("images", ()):
            size = f"[{image['media_type']}, {_size(image['bytes'])}]"
            content = content.replace(image["text"], size, 1)
        yield from _folded("", content, DATA_LINES if is_data else TEXT_LINES, folding)
    calls = message.get("tool_calls") or ()
    for call, number in zip(calls, moment["calls"] if calls else (), strict=True):
        function = call["function"]
        arguments = json.dumps(function.get("arguments", {}), ensure_ascii=False)
        named = f"call {number}  " if number else "call -  "
        yield from _folded(named, f"{function['name']} {arguments}", DATA_LINES, folding)


def _folded(label: str, text: str, most: int, folding: Folding, *, dim: bool = False) -> Iterator[str]:
    indent = INDENT + " " * len(label)
    lines, note = folding.lines(text, most, len(indent))
    for at, line in enumerate(lines):
        start = INDENT + click.style(label, fg="cyan") if at == 0 else indent
        yield start + (click.style(line, dim=True) if dim else line)
    if note:
        yield indent + click.style(note, fg="yellow")
