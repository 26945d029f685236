"""An episode as one JSON document: for `mcp-bench show --json`, and for the pages of `mcp-bench view`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from mcp_bench.recorder.cli.model_calls import summary
from mcp_bench.recorder.conversations.images import image_facts
from mcp_bench.recorder.conversations.load import as_shown, trajectory
from mcp_bench.recorder.conversations.timeline import timeline
from mcp_bench.recorder.runs.reader import RunReader, StoredEpisode
from mcp_bench.recorder.scan.unseen import unseen_values
from mcp_bench.recorder.scores.assertion_words import in_words
from mcp_bench.recorder.taint import verified
from mcp_bench.recorder.trajectory import Message, Usage

ORACLE = "oracle"


def episode_document(reader: RunReader, episode: str) -> dict[str, Any]:
    """Return the episode as `show --json` prints it: facts, grade in words, conversation, calls."""
    stored = reader.episode(episode)
    facts = asdict(stored)
    facts["settings"] = stored.settings.model_dump()
    for name in ("score_settings", "partial", "strict", "grader_version", "score", "certain"):
        del facts[name]
    calls, captured = reader.calls(episode), reader.model_calls(episode)
    conversation = trajectory(reader, stored)
    moments = timeline(conversation.messages, calls, as_shown(reader, stored, captured))
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
        "asked": _asked(reader, stored),
        "calls": [call.model_dump() for call in calls],
        "messages": [_message(message) for message in conversation.messages],
        "timeline": [asdict(moment) for moment in moments],
        "tools": [tool.model_dump() for tool in conversation.tools],
    }


def _message(message: Message) -> dict[str, Any]:
    images = [image_facts(image) for image in message.images]
    return message.model_dump(exclude_none=True, exclude={"images"}) | ({"images": images} if images else {})


def _grade(reader: RunReader, stored: StoredEpisode) -> dict[str, Any] | None:
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


def _asked(reader: RunReader, stored: StoredEpisode) -> list[dict[str, Any]]:
    """Return how often the world asked each model of its roles, and how much."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for one in reader.asked(stored.id):
        usage = one.usage or Usage()
        row = found.setdefault((one.role, one.model), {"role": one.role, "model": one.model})
        row["requests"] = row.get("requests", 0) + 1
        row["failed"] = row.get("failed", 0) + (one.error is not None)
        for name in ("input_tokens", "output_tokens", "cost_usd"):
            if (value := getattr(usage, name)) is not None:
                row[name] = row.get(name, 0) + value
    return list(found.values())


def _unseen(reader: RunReader, stored: StoredEpisode) -> list[dict[str, Any]]:
    """Return the values that the agent cannot have read. The oracle has the solution, so it has none."""
    if stored.agent == ORACLE:
        return []
    instructions = f"{reader.system(stored.id)}\n{stored.prompt}"
    found = unseen_values(instructions, reader.tools(stored.id), reader.calls(stored.id))
    return [asdict(one) for one in found]
