"""Whether what agents saw holds a grade, a reward or the reference's answer."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from mcp_bench.api import Run
from mcp_bench.bridge.check.finding import Finding, judged
from mcp_bench.bridge.check.overlap import few
from mcp_bench.recorder.runs.reader import RunReader, StoredEpisode
from mcp_bench.servers.contracts import Reference, Task

WORDS = ("reward", "partial", "strict", "assertions", "grader_version")
"""Names of fields of a grade. As a key in a result they give it away."""
DOUBTFUL = r"grade|passed|solved|checks|partial_\w+"
"""Names of fields that can be a grade, or what an honest program prints."""
SAID = re.compile(r"(?i)\b(grade|partial|strict)\b\W{1,3}(?:\d|true\b|false\b)")
"""A grade in a text."""
VERDICT = r"""["'](?:passed|solved|satisfied|fulfilled|held)["']\s*:\s*(?:true|false)\b"""
LEAST_ANSWER = 12
"""Shorter answers stand in a text by chance."""
LEAST_DIGITS = 4
"""Digits from which a number is not there by chance."""
NUMBER = re.compile(r"-?\d+\.\d+")


def sealing(runs: Sequence[Run], tasks: Mapping[str, Task], solutions: Mapping[str, Reference]) -> Finding:
    """Search what the server sent in recorded episodes.

    An answer may be found by looking for it, so it is searched for only where nobody looked yet: in prompts,
    and in what an agent gets that does nothing.
    """
    failures: dict[str, list[str]] = defaultdict(list)  # where, by what was seen
    doubts: dict[str, list[str]] = defaultdict(list)
    warnings: list[str] = []
    size = 0
    for run in runs:
        with RunReader(run.path) as reader:
            for episode in reader.episodes():
                seen = "\n".join(texts(reader, episode))
                size += len(seen)
                name = f"{episode.task} ({episode.agent})"
                for what in betrayed(reader, episode, seen):
                    failures[what].append(name)
                for what in doubtful(reader, episode, seen):
                    doubts[what].append(name)
                solved = solutions.get(episode.task)
                answer = solved.answer.strip() if solved else ""
                if len(answer) < LEAST_ANSWER:
                    continue
                if episode.agent == "noop" and answer in seen:
                    failures["the tools' list has the reference's answer"].append(name)
                elif answer in tasks[episode.task].prompt:
                    warnings.append(f"{episode.task}: the prompt has the reference's answer")
    summary = f"{size:,} characters that agents saw were searched"
    return judged("sealing", summary, where(failures), [*few(where(doubts)), *few(warnings)])


def where(seen: Mapping[str, Sequence[str]]) -> list[str]:
    """Return what was seen, each with the first place and the number of others."""
    return [
        f"{what}: {places[0]}{f' and {len(places) - 1} more' if len(places) > 1 else ''}"
        for what, places in seen.items()
    ]


def texts(reader: RunReader, episode: StoredEpisode, by: str = "server") -> Iterator[str]:
    """Yield the texts of all that one side sent, without the escapes of JSON."""
    for _, sender, body in reader.frame_bodies(episode.id):
        if sender == by:
            try:
                yield from strings(json.loads(body))
            except ValueError:  # a piece of a large frame
                yield body.decode(errors="replace")


def strings(value: object) -> Iterator[str]:
    """Yield the texts, numbers and keys of a JSON value."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield f'"{key}":'
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)
    else:
        yield str(value)


def betrayed(reader: RunReader, episode: StoredEpisode, seen: str) -> Iterator[str]:
    """Yield what of an episode's grade stands in what its agent saw."""
    for word in WORDS:
        if re.search(rf"""["']{word}["']\s*:""", seen):
            yield f"a result has the field {word!r}"
    numbers = set(NUMBER.findall(seen))
    for reward in set(reader.rewards(episode.id).values()):
        if distinct(reward) and repr(reward) in numbers:
            yield f"a result shows the reward {reward}"
    if episode.partial is not None and distinct(episode.partial) and repr(episode.partial) in numbers:
        yield f"a result shows the grade {episode.partial}"
    own = "\n".join((episode.answer or "", *texts(reader, episode, "client")))
    for check in reader.assertions(episode.id):
        detail = str(check.get("detail", ""))
        if len(detail) >= LEAST_ANSWER and detail in seen and detail not in own:  # it may quote the answer
            yield f"a result has the detail of the assertion {check.get('name')!r}"
        if beside_verdict(str(check.get("name", ""))).search(seen):
            yield f"a result has the assertion {check.get('name')!r} beside a verdict"


def doubtful(reader: RunReader, episode: StoredEpisode, seen: str) -> Iterator[str]:
    """Yield what can be a grade in what an agent saw, and can be a part of an honest world."""
    for word in sorted(set(re.findall(rf"""["']({DOUBTFUL})["']\s*:""", seen))):
        yield f"a result has the field {word!r}"
    for word in sorted({found.lower() for found in SAID.findall(seen)}):
        yield f"a text has the word {word!r} with a value"
    for check in reader.assertions(episode.id):
        name = str(check.get("name", ""))
        if re.search(rf"""(?i)["']{re.escape(name)}["']\s*:\s*(?:true|false)\b""", seen):
            yield f"a result has a field like the assertion {name!r}, which is true or false"


def beside_verdict(name: str) -> re.Pattern[str]:
    """Return what finds an object with an assertion's name and its verdict, in either order."""
    shown = rf"(?<![\w-]){re.escape(name)}(?![\w-])"
    after = rf"""{shown}["']?\s*,?\s*{VERDICT}"""
    before = rf"""{VERDICT}\s*,?\s*["']\w+["']\s*:\s*["']?{shown}"""
    return re.compile(f"(?i){after}|{before}")


def distinct(number: float) -> bool:
    return sum(map(str.isdigit, repr(number).lstrip("0."))) >= LEAST_DIGITS
