"""`mcp-bench show`: list recordings, or show an episode with its grade and conversation."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mcp_bench.recorder.cli.run_options import run_options

if TYPE_CHECKING:
    from mcp_bench.recorder.store.reader import RunReader, StoredEpisode
    from mcp_bench.recorder.trajectory import Message

ORACLE = "oracle"
RUN_PREFIX = "run_"

EPILOG = """\b
Examples:
  mcp-bench show
  mcp-bench show run_01kbf3x9qv2m8t0
  mcp-bench show ep_01kbf3x9qv2m8t0
  mcp-bench show ep_01kbf3x9qv2m8t0 --full
  mcp-bench show ep_01kbf3x9qv2m8t0 --json | jq .grade
  mcp-bench show ep_01kbf3x9qv2m8t0 --model-calls
  mcp-bench show --run-tag baseline
"""


@click.command(epilog=EPILOG, short_help="Show runs, the episodes of a run, or one episode.")
@click.argument("what", required=False, metavar="[RUN|EPISODE]")
@run_options
@click.option("--full", is_flag=True, help="Do not cut long texts, arguments and results.")
@click.option("--model-calls", is_flag=True, help="List the captured model calls of the episode.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def show(
    what: str | None, runs: tuple[str, ...], run_tags: tuple[str, ...], full: bool, model_calls: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """Show all runs, the episodes of a run, or one episode with its grade and conversation.

    RUN and EPISODE are an id or a unique prefix of one. An episode's messages have a number and the seconds
    since its start. Long texts are cut to some lines, and a note says how much is hidden; --full and --json
    have everything. Control characters in text from agents and tools are escaped.

    --run and --run-tag choose the runs that are listed, and those in which EPISODE is searched for.
    """
    from mcp_bench.recorder.cli.listing import show_episodes, show_runs
    from mcp_bench.recorder.runs.find import find_episode, run_paths
    from mcp_bench.recorder.store.reader import RunReader

    if what is None and not runs and not model_calls:
        show_runs(run_tags, as_json)
        return
    paths = run_paths(runs, tags=run_tags)
    named = _runs_named(what, paths)
    if model_calls and (what is None or named):
        raise click.UsageError("--model-calls goes with an episode: name one")
    if what is None or named:
        show_episodes(named or paths, as_json)
        return
    if not what.strip():
        raise click.UsageError("the name of a run or an episode is empty")
    path, found = find_episode(what, paths)
    with RunReader(path) as reader:
        if model_calls:
            from mcp_bench.recorder.cli.model_calls import show_model_calls

            show_model_calls(reader, found, as_json=as_json)
            return
        document = _document(reader, found)
    if as_json:
        click.echo(json.dumps(document))
        return
    colour = False if os.environ.get("NO_COLOR") else None  # None: if this is a terminal
    for line in _lines(document, full=full):
        click.echo(line, color=colour)


def _runs_named(what: str | None, paths: Sequence[Path]) -> list[Path]:
    """Return the run that an argument names; nothing if it can only name an episode."""
    from mcp_bench.recorder.runs.names import run_id

    known = {path.name: path for path in paths}
    if what is None or not (what in known or what.startswith(RUN_PREFIX)):
        return []
    return [known[run_id(what, known)]]


def _document(reader: RunReader, episode: str) -> dict[str, Any]:
    from dataclasses import asdict

    from mcp_bench.recorder.cli.model_calls import summary
    from mcp_bench.recorder.conversations.load import trajectory
    from mcp_bench.recorder.conversations.timeline import timeline
    from mcp_bench.recorder.taint import verified

    stored = reader.episode(episode)
    facts = asdict(stored)
    facts["settings"] = json.loads(stored.settings)
    for name in ("partial", "strict", "grader_version", "score", "certain"):
        del facts[name]
    calls, captured = reader.calls(episode), reader.model_calls(episode)
    conversation = trajectory(reader, stored)
    moments = timeline(conversation.messages, calls, captured)
    return {
        **facts,
        "captured": summary(captured),
        "log_folder": str(reader.path / "logs"),
        "verified": verified(stored),
        "evidence_of_taint": reader.evidence_of_taint(episode),
        "flags": [asdict(flag) for flag in reader.flags(episode)],
        "public_task": stored.public,
        "claim": stored.claim,
        "unseen_values": _unseen(reader, stored),
        "grade": _grade(reader, stored),
        "calls": [call.model_dump() for call in calls],
        "messages": [_message(message) for message in conversation.messages],
        "timeline": [asdict(moment) for moment in moments],
        "tools": [tool.model_dump() for tool in conversation.tools],
    }


def _message(message: Message) -> dict[str, Any]:
    from mcp_bench.recorder.conversations.images import image_facts

    images = [image_facts(image) for image in message.images]
    return message.model_dump(exclude_none=True, exclude={"images"}) | ({"images": images} if images else {})


def _grade(reader: RunReader, stored: StoredEpisode) -> dict[str, Any] | None:
    from mcp_bench.recorder.scores.assertion_words import in_words

    if stored.partial is None:
        return None
    return {
        "partial": stored.partial,
        "strict": stored.strict,
        "grader_version": stored.grader_version,
        "assertions": in_words(
            stored.benchmark,
            stored.benchmark_version,
            reader.assertions(stored.id),
            reader.final_state(stored.id),
        ),
        "metrics": reader.metrics(stored.id),
        "score": stored.score and stored.score.model_dump(),
        "submissions": [score.model_dump() for score in reader.submissions(stored.id)],
        "certain": stored.certain,
        "rewards": [
            {"execution": execution, "reward": reward}
            for execution, reward in reader.rewards(stored.id).items()
        ],
    }


def _unseen(reader: RunReader, stored: StoredEpisode) -> list[dict[str, Any]]:
    """Return the values that the agent cannot have read. The oracle has the solution, so it has none."""
    from dataclasses import asdict

    from mcp_bench.recorder.scan.unseen import unseen_values

    if stored.agent == ORACLE:
        return []
    instructions = f"{reader.system(stored.id)}\n{stored.prompt}"
    found = unseen_values(instructions, reader.tools(stored.id), reader.calls(stored.id))
    return [asdict(one) for one in found]


def _lines(document: dict[str, Any], *, full: bool) -> Iterator[str]:
    from mcp_bench.recorder.cli.episode_facts import facts, grade
    from mcp_bench.recorder.cli.folding import Folding
    from mcp_bench.recorder.cli.turns import turns

    folding = Folding(full=full)
    yield from facts(document, folding)
    yield ""
    yield from grade(document["grade"], document["calls"], folding)
    yield from turns(document, folding)
