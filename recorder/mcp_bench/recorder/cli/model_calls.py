"""The captured model calls of an episode, for `mcp-bench show`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import click

from mcp_bench.recorder.cli.listing import print_table
from mcp_bench.recorder.conversations.load import as_shown
from mcp_bench.recorder.runs.reader import RunReader
from mcp_bench.recorder.store.model_calls import StoredModelCall, total_usage

MICROSECONDS = 1_000_000


def summary(calls: Sequence[StoredModelCall]) -> dict[str, Any] | None:
    """Return counts, tokens and parameters of the captured calls, or None if there are none.

    `usage` is None if an answered call did not report its usage. `parameters` lists the different sampling
    parameters of the turns.
    """
    if not calls:
        return None
    parameters: list[dict[str, Any]] = []
    for call in calls:
        if call.kind == "turn" and call.parameters not in parameters:
            parameters.append(call.parameters)
    usage = total_usage(calls)
    return {
        "model_calls": len(calls),
        "turns": sum(call.message is not None for call in calls),
        "side": sum(call.kind == "side" for call in calls),
        "other": sum(call.kind == "other" for call in calls),
        "failed": sum(call.outcome != "ok" for call in calls),
        "usage": usage.model_dump(exclude_none=True) if usage else None,
        "parameters": parameters,
    }


def in_words(captured: dict[str, Any]) -> str:
    """Return a summary as one line of text."""
    kinds = f"{captured['turns']} turns, {captured['side']} on the side, {captured['other']} other"
    words = [f"{captured['model_calls']} model calls ({kinds})"]
    words += [f"{captured['failed']} failed"] if captured["failed"] else []
    words += [f"{name} {count}" for name, count in (captured["usage"] or {}).items() if name != "model_calls"]
    for parameters in captured["parameters"]:
        words += [f"{name} {json.dumps(value)}" for name, value in parameters.items()]
    return ", ".join(words)


def show_model_calls(reader: RunReader, episode: str, *, as_json: bool, cut_off: bool) -> None:
    """Print the captured calls of an episode; as JSON, with requests and responses.

    Args:
        reader: of its run.
        episode: its id.
        as_json: see above.
        cut_off: whether nobody records the run any more, so that a call without an end never gets one.
    """
    stored = reader.episode(episode)
    # with the numbers that `show EPISODE` gives to messages
    calls = as_shown(reader, stored, reader.model_calls(episode))
    if as_json:
        click.echo(json.dumps([_document(reader, call) for call in calls]))
        return
    if not calls:
        click.echo("no model calls were captured. To capture them, use `mcp-bench record --capture-llm`")
        return
    print_table(
        ["model call", "after s", "seconds", "as", "ended", "model", "input", "output", "finish"],
        [
            [
                call.id,
                f"{(call.started_us - stored.started_us) / MICROSECONDS:.1f}",
                _seconds(call),
                _role(call),
                _ended(call, cut_off),
                call.model or "",
                str((call.usage and call.usage.input_tokens) or ""),
                str((call.usage and call.usage.output_tokens) or ""),
                call.finish or "",
            ]
            for call in calls
        ],
    )


def _document(reader: RunReader, call: StoredModelCall) -> dict[str, Any]:
    request, response, answer = reader.model_bodies(call.id)
    usage = call.usage.model_dump(exclude_none=True) if call.usage else None
    bodies = {"request": _json_or_text(request), "response": _text(response), "answer": answer}
    return {**asdict(call), "usage": usage, **bodies}


def _json_or_text(body: str | bytes) -> Any:
    text = _text(body) or ""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _text(body: str | bytes | None) -> str | None:
    return body.decode("utf-8", "replace") if isinstance(body, bytes) else body


def _seconds(call: StoredModelCall) -> str:
    return f"{(call.ended_us - call.started_us) / MICROSECONDS:.1f}" if call.ended_us is not None else ""


def _role(call: StoredModelCall) -> str:
    if call.message is not None:
        return f"message {call.message}"
    return {"turn": "no message", "side": "on the side"}.get(call.kind or "", f"{call.method} {call.path}")


def _ended(call: StoredModelCall, cut_off: bool) -> str:
    if not call.outcome:
        return "its referee died" if cut_off else "in progress"
    return call.outcome if call.status is None else f"{call.outcome} {call.status}"
