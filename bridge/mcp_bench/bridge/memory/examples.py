"""The best attempts as examples: always in context, or found by the tool `recall`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import yaml

from mcp_bench.bridge.harness.folder import INSTRUCTIONS, MOST_BYTES
from mcp_bench.bridge.memory.attempts import Attempt
from mcp_bench.bridge.memory.compact import compact

BEGIN, END = "<!-- solved examples -->", "<!-- end of solved examples -->"


def best(attempts: Sequence[Attempt]) -> list[Attempt]:
    """Return the best solved attempt at each task: one of each family first, then the second of each."""
    by_task: dict[str, Attempt] = {}
    for one in sorted((one for one in attempts if one.episode.strict), key=_effort):
        by_task.setdefault(one.task, one)
    ranked: list[tuple[int, tuple[int, int, str], Attempt]] = []
    seen: dict[str, int] = {}
    for one in by_task.values():
        seen[one.family] = seen.get(one.family, -1) + 1
        ranked.append((seen[one.family], _effort(one), one))
    return [one for *_, one in sorted(ranked, key=lambda row: row[:2])]


def _effort(attempt: Attempt) -> tuple[int, int, str]:
    """Few calls, then few characters; the id settles what is left."""
    return len(attempt.calls), len(compact(attempt)), attempt.episode.id


def with_examples(files: Mapping[str, str], chosen: Sequence[Attempt]) -> dict[str, str]:
    """Return a harness's files with solved examples in its instructions, in place of earlier ones."""
    before, _, rest = files.get(INSTRUCTIONS, "").partition(BEGIN)
    after = rest.rpartition(END)[2] if END in rest else ""
    texts = "\n\n".join(compact(one, most=2_000) for one in chosen)
    for marker in (BEGIN, END):  # a recording can have any text
        texts = texts.replace(marker, "...")
    episodes = " ".join(one.episode.id for one in chosen)
    section = f"{BEGIN}\n<!-- {episodes} -->\nSolved examples:\n\n{texts}\n{END}"
    return {**files, INSTRUCTIONS: "\n\n".join(filter(None, (before.strip(), section, after.strip()))) + "\n"}


def with_recall(files: Mapping[str, str], chosen: Sequence[Attempt]) -> tuple[dict[str, str], int]:
    """Return a harness's files with solved attempts to recall, in place of earlier ones, and how many fit."""
    found = {path: text for path, text in files.items() if not path.startswith("recall/")}
    room = MOST_BYTES - sum(len(text.encode()) for text in found.values())
    added = 0
    for one in chosen:
        about = yaml.safe_dump({"benchmark": one.episode.benchmark, "task": one.episode.task}, sort_keys=True)
        text = f"---\n{about}---\n{compact(one)}\n"
        if (size := len(text.encode())) > room:
            continue
        room -= size
        found[f"recall/{one.episode.id}.md"] = text
        added += 1
    return found, added
