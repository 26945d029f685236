"""`mcp-bench show`: list recordings, or show an episode with its grade and conversation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from mcp_bench.recorder.store.reader import RunReader, StoredEpisode

ORACLE = "oracle"


@click.command(short_help="Show runs, the episodes of a run, or one episode.")
@click.argument("what", required=False, metavar="[RUN|EPISODE]")
@click.option("--model-calls", is_flag=True, help="List the captured model calls of the episode.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def show(what: str | None, model_calls: bool, as_json: bool) -> None:
    """Show all runs, the episodes of a run, or one episode with its grade and conversation.

    EPISODE is an id or a unique prefix of one. Control characters in text from agents and tools are escaped.

    \b
    Examples:
      mcp-bench show
      mcp-bench show run_01kbf3x9qv2m8t0
      mcp-bench show ep_01kbf3x9qv2m8t0
      mcp-bench show ep_01kbf3x9qv2m8t0 --json | jq .grade
      mcp-bench show ep_01kbf3x9qv2m8t0 --model-calls
    """
    from mcp_bench.recorder.cli.listing import show_episodes, show_runs
    from mcp_bench.recorder.store.reader import RunReader, find_episode, run_paths

    run = next((path for path in run_paths() if path.name == what), None)
    if model_calls and (what is None or run is not None):
        raise click.UsageError("--model-calls goes with an episode: name one")
    if what is None:
        show_runs(as_json)
        return
    if run is not None:
        show_episodes(run, as_json)
        return
    if not what.strip():
        raise click.UsageError("the name of a run or an episode is empty")
    path, found = find_episode(what)
    with RunReader(path) as reader:
        if model_calls:
            from mcp_bench.recorder.cli.model_calls import show_model_calls

            show_model_calls(reader, found, as_json=as_json)
            return
        document = _document(reader, found)
    if as_json:
        click.echo(json.dumps(document))
        return

    from mcp_bench.servers.sanitize import sanitize_line

    for heading, text in _lines(document):
        click.echo(click.style(sanitize_line(heading), bold=True) + text)


def _document(reader: RunReader, episode: str) -> dict[str, Any]:
    from dataclasses import asdict

    from mcp_bench.recorder.cli.model_calls import summary
    from mcp_bench.recorder.conversations.load import trajectory
    from mcp_bench.recorder.taint import verified

    stored = reader.episode(episode)
    facts = asdict(stored)
    facts["settings"] = json.loads(stored.settings)
    partial, strict, grader = (facts.pop(name) for name in ("partial", "strict", "grader_version"))
    grade = None
    if partial is not None:
        grade = {
            "partial": partial,
            "strict": strict,
            "grader_version": grader,
            "assertions": reader.assertions(episode),
            "metrics": reader.metrics(episode),
        }
    conversation = trajectory(reader, stored)
    return {
        **facts,
        "captured": summary(reader.model_calls(episode)),
        "log_folder": str(reader.path / "logs"),
        "verified": verified(stored),
        "evidence_of_taint": reader.evidence_of_taint(episode),
        "flags": [asdict(flag) for flag in reader.flags(episode)],
        "public_task": stored.public,
        "claim": stored.claim,
        "unseen_values": _unseen(reader, stored),
        "grade": grade,
        "calls": [call.model_dump() for call in reader.calls(episode)],
        "messages": [message.model_dump(exclude_none=True) for message in conversation.messages],
        "tools": [tool.model_dump() for tool in conversation.tools],
    }


def _unseen(reader: RunReader, stored: StoredEpisode) -> list[dict[str, Any]]:
    """Return the values that the agent cannot have read. The oracle has the solution, so it has none."""
    from dataclasses import asdict

    from mcp_bench.recorder.scan.unseen import unseen_values

    if stored.agent == ORACLE:
        return []
    found = unseen_values(stored.prompt, reader.tools(stored.id), reader.calls(stored.id))
    return [asdict(one) for one in found]


def _lines(document: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield pairs of a bold heading and the text after it.

    The text is sanitized, and text of agents is never at the left edge, so it cannot pass for a fact or a
    grade.
    """
    from mcp_bench.recorder.cli.model_calls import in_words
    from mcp_bench.servers.sanitize import sanitize_line

    seconds = (document["ended_us"] - document["started_us"]) / 1e6 if document["ended_us"] else None
    facts = {
        "episode": document["id"],
        "run": document["run"],
        "task": f"{document['benchmark']} {document['task']} ({document['split']}, {document['domain']})",
        "attempt": f"{document['attempt']} (seed {document['seed']}, repeat {document['repeat']})",
        "agent": f"{document['agent']} {document['agent_version']}",
        "model": document["model"],
        "isolation": document["isolation"] + _probed(document["probes"]),
        "taint": document["taint"] + (", verified" if document["verified"] else ", not verified"),
        "home": f"{document['home']}, tools {document['tools_mode']}",
        "tasks": {True: "public", False: "private", None: None}[document["public_task"]],
        "ended": document["termination"] and f"{document['termination']}, exit code {document['exit_code']}",
        "seconds": seconds and f"{seconds:.1f}",
        "invalid": document["invalid"] and f"{document['invalid']}: {document['invalid_detail'] or ''}",
        "claim": document["claim"] and f"not believed: {document['invalid_detail']}",
        "usage": ", ".join(f"{name} {value}" for name, value in (document["usage"] or {}).items()),
        "captured": document["captured"] and in_words(document["captured"]),
        "logs": document["log_folder"],
    }
    for name, value in facts.items():
        if value:
            yield f"{name:<10}", sanitize_line(str(value))
    for found in document["evidence_of_taint"]:
        yield f"{'evidence':<10}", sanitize_line(f"{found['what']} in {found['where']}: {found['excerpt']}")
    yield from _flags(document["flags"])
    for one in document["unseen_values"]:
        text = f"call {one['call']}, {one['tool']}: {one['value']} was in no prompt, schema or earlier result"
        yield f"{'unseen':<10}", sanitize_line(text)
    yield "", ""
    yield from _grade(document["grade"])
    for message in document["messages"]:
        yield "", ""
        yield from _message(message)


def _probed(probes: dict[str, Any] | None) -> str:
    if not probes:
        return ""
    failed = [name for name, result in probes.items() if not result.get("passed")]
    return f", probes failed: {', '.join(failed)}" if failed else f", {len(probes)} probes passed"


def _flags(flags: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    from datetime import UTC, datetime

    from mcp_bench.servers.sanitize import sanitize_line

    for flag in flags:
        at = datetime.fromtimestamp(flag["time_us"] / 1e6, tz=UTC)
        yield f"{'flag':<10}", sanitize_line(f"{at:%H:%M:%S} {flag['kind']}: {flag['detail']}")


def _grade(grade: dict[str, Any] | None) -> Iterator[tuple[str, str]]:
    from mcp_bench.servers.sanitize import sanitize_line

    if grade is None:
        yield "grade     ", "none"
        return
    verdict = "solved" if grade["strict"] else "not solved"
    line = f"partial {grade['partial']:.3f}, {verdict} (grader {grade['grader_version']})"
    yield "grade     ", sanitize_line(line)
    for assertion in grade["assertions"]:
        mark = "ok  " if assertion.get("passed") else "FAIL"
        detail = f": {assertion['detail']}" if assertion.get("detail") else ""
        yield (
            f"  {mark} ",
            sanitize_line(f"{assertion.get('kind', 'objective')} {assertion.get('name')}{detail}"),
        )


def _message(message: dict[str, Any]) -> Iterator[tuple[str, str]]:
    from mcp_bench.servers.sanitize import sanitize_line

    heading = message["role"]
    if message["role"] == "tool":
        heading += f" {message.get('name', '')} [{message.get('tool_call_id')}]"
        heading += " error" if message.get("is_error") else ""
    yield heading, ""
    if message.get("reasoning"):
        yield "  thinks: ", _indented(message["reasoning"])
    if message.get("content"):
        yield "  ", _indented(message["content"])
    for call in message.get("tool_calls", ()):
        function = call["function"]
        arguments = json.dumps(function.get("arguments", {}), ensure_ascii=False)
        yield "  calls ", sanitize_line(f"{function['name']} {arguments} [{call['id']}]")


def _indented(text: str) -> str:
    from mcp_bench.servers.sanitize import sanitize

    return sanitize(text).replace("\n", "\n  ")
