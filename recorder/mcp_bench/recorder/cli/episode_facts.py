"""The facts about an episode and its grade as text: what was required, whether it holds, what was found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import click

from mcp_bench.recorder.cli.folding import Folding
from mcp_bench.recorder.cli.model_calls import in_words
from mcp_bench.recorder.counted import counted
from mcp_bench.recorder.utc import utc
from mcp_bench.servers.terminal.sanitize import sanitize_line

DETAIL_LINES = 4
"""Lines to which a requirement, and what was found instead, are folded."""
_WIDTH = 11


def facts(document: dict[str, Any], folding: Folding) -> Iterator[str]:
    """Yield a line for each fact that there is. `document` is what `show --json` prints."""
    known = {
        "episode": document["id"],
        "run": document["run"],
        "run tags": ", ".join(document["run_tags"]),
        "task": f"{document['benchmark']} {document['task']} ({document['split']}, {document['domain']})",
        "attempt": f"{document['attempt']} (seed {document['seed']}, repeat {document['repeat']})",
        "agent": f"{document['agent']} {document['agent_version']}",
        "model": document["model"],
        "began": _began(document),
        "ended": _ended(document),
        "invalid": document["invalid"] and f"{document['invalid']}: {document['invalid_detail'] or ''}",
        "claim": document["claim"] and f"not believed: {document['invalid_detail']}",
        "calls": _calls(document),
        "usage": _usage(document["usage"] or {}),
        "captured": document["captured"] and in_words(document["captured"]),
        "asked": "; ".join(map(_asked, document["asked"])),
        "isolation": document["isolation"] + _probed(document["probes"]),
        "taint": document["taint"] + (", verified" if document["verified"] else ", not verified"),
        "home": f"{document['home']}, tools {document['tools_mode']}",
        "tasks": {True: "public", False: "private", None: None}[document["public_task"]],
        "logs": document["log_folder"],
    }
    for name, value in known.items():
        if value:
            yield _fact(name, str(value))
    if document["run_note"]:
        heading = click.style(f"{'run note':<{_WIDTH}}", bold=True)
        yield from _block(heading, _WIDTH, document["run_note"], folding)
    for found in document["evidence_of_taint"]:
        yield _fact("evidence", f"{found['what']} in {found['where']}: {found['excerpt']}")
    for flag in document["flags"]:
        yield _fact("flag", f"{utc(flag['time_us'], '%H:%M:%S')} {flag['kind']}: {flag['detail']}")
    for one in document["unseen_values"]:
        text = f"call {one['call']}, {one['tool']}: {one['value']} was in no prompt, schema or earlier result"
        yield _fact("unseen", text)


def grade(found: dict[str, Any] | None, calls: Sequence[dict[str, Any]], folding: Folding) -> Iterator[str]:
    """Yield the lines of a grade: the verdict, what was measured, objectives and guardrails, rewards."""
    if found is None:
        yield _fact("grade", "none")
        return
    verdict = click.style("solved", fg="green") if found["strict"] else click.style("not solved", fg="red")
    version = sanitize_line(str(found["grader_version"]))
    heading = click.style(f"{'grade':<{_WIDTH}}", bold=True)
    judged = "" if found["certain"] else ", a model's judgement"
    yield f"{heading}partial {found['partial']:.3f}, {verdict} (grader {version}){judged}"
    yield from _measured(found["score"], found["submissions"], folding)
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for assertion in found["assertions"]:
        by_kind.setdefault(str(assertion.get("kind", "objective")), []).append(assertion)
    for kind, words in (("objective", ("met", "NOT MET")), ("guardrail", ("kept", "BROKEN"))):
        if assertions := by_kind.pop(kind, []):
            yield from _assertions(f"{kind}s", assertions, words, folding)
    for kind, assertions in by_kind.items():
        yield from _assertions(sanitize_line(kind), assertions, ("holds", "FAILED"), folding)
    if rewards := found["rewards"]:
        yield from _rewards(rewards, calls, folding)


def _measured(
    score: dict[str, Any] | None, submissions: Sequence[dict[str, Any]], folding: Folding
) -> Iterator[str]:
    if score is not None:
        known = [f"{score['better']} is better"]
        known += [f"{name} {_value(score, name)}" for name in ("baseline", "par") if score[name] is not None]
        yield sanitize_line(f"  score: {score['name']} {_value(score)} ({', '.join(known)})")
    if submissions:
        start = f"  {len(submissions)} submissions: "
        values = ", ".join(_value(one) for one in submissions)
        yield from _block(start, len(start), values, folding)


def _value(score: dict[str, Any], name: str = "value") -> str:
    return f"{score[name]:.6g} {score['unit']}".strip()


def _rewards(
    rewards: Sequence[dict[str, Any]], calls: Sequence[dict[str, Any]], folding: Folding
) -> Iterator[str]:
    """Yield the sum of the rewards, and that of each step with the number that its call has below."""
    numbers = {call["execution"]: number for number, call in enumerate(calls, start=1)}
    steps = [f"call {numbers.get(one['execution'], '-')} {one['reward']:+.6g}" for one in rewards]
    start = f"  rewards: {sum(one['reward'] for one in rewards):.6g} in all: "
    yield from _block(start, 4, ", ".join(steps), folding)


def _assertions(
    title: str, assertions: Sequence[dict[str, Any]], words: tuple[str, str], folding: Folding
) -> Iterator[str]:
    """Yield those that do not hold first. Of guardrails that hold, only the number is of interest."""
    holding = [one for one in assertions if one.get("passed")]
    yield f"  {title}: {len(holding)} of {len(assertions)} {words[0]}"
    shown = [one for one in assertions if not one.get("passed")]
    shown += [] if title == "guardrails" and not folding.full else holding
    width = max(map(len, words)) + 2
    indent = " " * (4 + width)
    for one in shown:
        word, colour = (words[0], "green") if one.get("passed") else (words[1], "red")
        mark = f"    {click.style(f'{word:<{width}}', fg=colour)}"
        yield from _block(mark, len(indent), one["required"], folding)
        if one["found"]:
            yield from _block(f"{indent}found: ", len(indent) + 7, one["found"], folding)


def _block(start: str, indent: int, text: str, folding: Folding) -> Iterator[str]:
    """Yield a text with `start` before its first line, and `indent` spaces before the others."""
    lines, note = folding.lines(text, DETAIL_LINES, indent)
    for at, line in enumerate([*lines, *filter(None, [note])]):
        yield (start if at == 0 else " " * indent) + line


def _fact(name: str, text: str) -> str:
    return click.style(f"{name:<{_WIDTH}}", bold=True) + sanitize_line(text)


def _began(document: dict[str, Any]) -> str:
    began = f"{utc(document['started_us'])} UTC"
    if document["ended_us"] is None:
        return began
    return f"{began}, took {(document['ended_us'] - document['started_us']) / 1e6:.1f} s"


def _ended(document: dict[str, Any]) -> str | None:
    if document["termination"] is None:
        return None
    code = document["exit_code"]
    return str(document["termination"]) + ("" if code is None else f", exit code {code}")


def _calls(document: dict[str, Any]) -> str:
    failed = document["failed_calls"]
    return f"{len(document['calls'])}" + (f", {failed} failed" if failed else "")


def _usage(usage: dict[str, Any]) -> str:
    units = {
        "input_tokens": "{:,} tokens in",
        "output_tokens": "{:,} tokens out",
        "cached_tokens": "{:,} tokens cached",
        "model_calls": "{:,} model calls",
        "cost_usd": "${:.4f}",
    }
    known = {name: usage[name] for name in units if isinstance(usage.get(name), int | float)}
    rest = [f"{name} {value}" for name, value in usage.items() if name not in units and value is not None]
    return ", ".join([*(units[name].format(value) for name, value in known.items()), *rest])


def _asked(row: dict[str, Any]) -> str:
    failed = f", {row['failed']} failed" if row["failed"] else ""
    requests = counted(row["requests"], "request") + failed
    usage = _usage({name: row.get(name) for name in ("input_tokens", "output_tokens", "cost_usd")})
    return ", ".join(filter(None, (f"the {row['role']} {row['model']} {requests}", usage)))


def _probed(probes: dict[str, Any] | None) -> str:
    if not probes:
        return ""
    failed = [name for name, result in probes.items() if not result.get("passed")]
    return f", probes failed: {', '.join(failed)}" if failed else f", {len(probes)} probes passed"
