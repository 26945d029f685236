"""Proposals: what to change next, by the feedback agent or the operator, and whether it may be measured.

The feedback agent is recorded like any agent whose MCP server is somebody else's: `mcp-bench record --server
"mcp-bench experience --edit ..."`. So every agent plugin can be one, by configuration alone.
"""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from mcp_bench.bridge.episode.plan import tools_of
from mcp_bench.bridge.experience.editing import write_texts
from mcp_bench.bridge.harness.folder import AGENTS, Harness, texts_of
from mcp_bench.bridge.harness.world import check_fits
from mcp_bench.recorder.atomic_file import write_atomic
from mcp_bench.recorder.errors import StorageError
from mcp_bench.recorder.leakage.texts import TextCheck, for_agents
from mcp_bench.recorder.paths import runs_dir
from mcp_bench.recorder.runs.reader import RunReader
from mcp_bench.recorder.taint import Canary
from mcp_bench.servers.contracts import Benchmark
from mcp_bench.servers.errors import BenchError
from mcp_bench.servers.registry import load
from mcp_bench.trainer.folders import Outcome
from mcp_bench.trainer.improve.folder import Arm, ImproveFolder
from mcp_bench.trainer.improve.policy import ACTIONS, Choice
from mcp_bench.trainer.improve.recordings import (
    BudgetSpentError,
    Recordings,
    agent_arguments,
    attempts_of,
    spent_by,
)
from mcp_bench.trainer.improve.settings import ImproveSettings
from mcp_bench.trainer.trial import commands
from mcp_bench.trainer.trial.recordings import given
from mcp_bench.trainer.trial.scores import episodes_of

PROMPT = """\
Another agent works on tasks of the benchmark {benchmark} with tools. You make it better.

The tools of this server show what it did on training tasks: begin with `earlier_proposals`, `overview` and
`failures`, and read some episodes that went wrong with `episode`. Find out what goes wrong often, and why.

{task}

Your proposal is measured on other tasks, which you cannot see. So write what holds for all tasks of a kind,
in few words. Values of single tasks (ids, names, amounts) do not help there, and a proposal with values of
tasks that are kept back is refused. Make one change at a time: then its effect can be measured."""
HARNESS_TASK = """\
Edit the agent's harness with `files`, `read_file`, `write_file`, `edit_file` and `delete_file`: its
instructions, lessons in memory/, skills, descriptions of tools. Then call `propose_harness`."""
TRAINING_TASK = "Call `propose_training`: the agent's model is then trained on its own best episodes."
REWARD_TASK = """\
Call `propose_learning`: the agent's model then learns from the rewards of new attempts. That needs tasks that
it solves sometimes."""


def propose(folder: ImproveFolder, settings: ImproveSettings, number: int, **given: Any) -> Outcome:
    """Return what generation `number` changes: `action`, `reason`, and for an edit the harness's version.

    Args:
        folder: the improvement.
        settings: its settings.
        number: of the generation.
        given: `choice`, what the policy wants; `parent`, the folder of the harness to change; `runs`, the
            recordings to learn from; `earlier`, lines about earlier proposals; `edits`, their number that
            changed the harness.

    Raises:
        BenchError: the feedback agent's episode says nothing, since its endpoint or its launch failed.
        BudgetSpentError: nothing is left for its session.
    """
    choice: Choice = given["choice"]
    target = folder.harness(number)
    if choice == "stop":
        return {"action": "stop", "reason": f"the policy {settings.policy} has nothing left to try"}
    if choice in ("train", "rl"):
        filters = {"min_partial": settings.min_partial, "best": settings.best}
        return {"action": choice, "reason": f"the policy {settings.policy} chose it", **filters}
    if settings.candidates:
        return _candidate(folder, number, given["edits"] + 1)
    shutil.rmtree(target, ignore_errors=True)  # left by a stopped attempt
    before = texts_of(given["parent"])
    write_texts(target, before)
    spent, run_id, proposed = _ask(folder, settings, number, choice, given["runs"], given["earlier"])
    after = texts_of(target)
    found: Outcome = {**proposed, "run": run_id, "spent": spent}
    if found["action"] in (None, "harness"):
        found["action"] = "harness" if after != before else "none"
        found["harness"] = str(Harness(target.name, after)) if after else "empty"
    return found


def refusals(
    folder: ImproveFolder, settings: ImproveSettings, number: int, tried: Mapping[str, int]
) -> tuple[list[str], list[str]]:
    """Return why a proposed harness is not measured: for the operator, and for the feedback agent.

    The second list has neither values nor names of held-out tasks.

    Args:
        folder: the improvement.
        settings: its settings.
        number: the generation that proposes it.
        tried: the generations of the harnesses that were measured, by version, 0 for the start: a second try
            would be a second roll of the dice.
    """
    benchmark: Benchmark = load("benchmark", settings.benchmark)
    texts = texts_of(folder.harness(number))
    if not texts:
        return ["the harness has no files"], ["the harness has no files"]
    harness = Harness(folder.harness(number).name, texts)
    tools = tools_of(benchmark)
    if harness.version in tried:
        tried_in = tried[harness.version]
        known = f"it was tried in generation {tried_in}" if tried_in else "it is the harness at the start"
        return [known], [known]
    try:
        check_fits(harness, tools, f"benchmark {benchmark.name!r}")
    except BenchError as error:
        return [str(error)], [str(error)]
    recordings = Recordings(folder, settings)
    if harness.agents and not recordings.accepts(Arm(number)):
        wrong = f"{AGENTS}: `record` does not take these agents or options"
        return [wrong], [wrong]
    public = "\n".join(
        [
            *(f"{one.name} {one.description} {json.dumps(one.input_schema)}" for one in tools),
            *texts_of(folder.harness(0)).values(),
        ]
    )
    check = TextCheck(benchmark, _canaries(recordings))
    found = check.find(texts, allowed=public) or check.find(_delivered(harness), allowed=public)
    return [one.words() for one in found], for_agents(found)


def _candidate(folder: ImproveFolder, number: int, which: int) -> Outcome:
    """Return one of the operator's harnesses; the first is 1."""
    source = folder.path / "candidates" / str(which)
    if not source.is_dir():
        return {"action": "stop", "reason": "all candidates were tried"}
    texts = texts_of(source)
    write_texts(folder.harness(number), texts)
    name = (source / ".name").read_text(encoding="utf-8")
    return {"action": "harness", "reason": f"candidate {name}", "harness": str(Harness(f"h{number}", texts))}


def _ask(
    folder: ImproveFolder,
    settings: ImproveSettings,
    number: int,
    choice: Choice,
    runs: Sequence[str],
    earlier: Sequence[str],
) -> tuple[dict[str, float], str, dict[str, Any]]:
    """Let the feedback agent work. Return what it used, its run, and what it proposed."""
    possible = (*settings.kinds, "stop") if choice == "any" else (choice, "stop")
    actions = [one for one in ACTIONS if one in possible]
    offer = folder.generation(number) / "offer.json"
    write_atomic(offer, json.dumps({"actions": actions, "earlier": list(earlier)}, indent=1) + "\n")
    server = [sys.executable, *commands.MODULE, "experience"]
    server += [word for one in runs for word in ("--run", one)]
    server += ["--edit", str(folder.harness(number)), "--proposal", str(offer)]
    server += ["--reveal", "train"] if settings.reveal else []
    assert settings.feedback_agent is not None  # noqa: S101 - `begin` asked for it
    agent = agent_arguments(settings.feedback_agent, settings.feedback_model, settings.feedback_base_url)
    options = feedback_options(settings)
    tag = f"{folder.tag_of_all}/feedback-{number}"
    left = Recordings(folder, settings).check_budget(1)
    seconds = min(settings.feedback_timeout, left.seconds or settings.feedback_timeout)
    options += ["--timeout", f"{seconds:.3f}"]
    options += ["--max-cost", f"{left.usd:.6f}"] if left.usd is not None else []
    command = ["record", *agent, *options, "--server", shlex.join(server), "--run-tag", tag]
    document = commands.run([*command, "--prompt", prompt(settings.benchmark, actions), "--json"], wrong=(1,))
    (episode,) = episodes_of(document["run"])
    crashed = episode.termination == "crash" and not episode.calls
    if episode.invalid is not None or document["stopped"] or crashed:
        reason = episode.invalid or ("it crashed before its first call" if crashed else "stopped")
        raise BenchError(
            f"the feedback agent's episode says nothing ({reason}): see mcp-bench show {episode.id}. Resume "
            "when that is mended"
        )
    proposed = json.loads(offer.read_text(encoding="utf-8")).get("proposed")
    if episode.termination == "timeout" and proposed is None and seconds < settings.feedback_timeout:
        raise BudgetSpentError("the hours ended before the feedback agent had proposed something")
    said = {"action": None, "reason": (episode.answer or "it gave no reason")[:2000]}
    found = {**(proposed or said), "tainted": episode.id if episode.taint == "tainted" else None}
    return spent_by(attempts_of(runs_dir() / episode.run)), episode.run, found


def feedback_options(settings: ImproveSettings) -> list[str]:
    """Return the options of `record` for the feedback agent. It is isolated as the agent under test is.

    A session is not tried again by `record`: its edits and its proposal would stay.
    """
    options = ["--retries", "0"]
    options += [word for one in settings.feedback_options for word in ("--agent-option", one)]
    for flag in ("--isolation", "--require-isolation"):
        options += given(settings.record_options, flag)
    return options


def prompt(benchmark: str, actions: Sequence[str]) -> str:
    """Return what the feedback agent is asked."""
    texts = (("harness", HARNESS_TASK), ("train", TRAINING_TASK), ("rl", REWARD_TASK))
    tasks = [text for name, text in texts if name in actions]
    tasks = ["\n\nOr: ".join(tasks), "If nothing is left to improve, call `stop`."]
    return PROMPT.format(benchmark=benchmark, task="\n\n".join(tasks))


def _delivered(harness: Harness) -> dict[str, str]:
    """Return what the agent under test gets to read, which a file may spell otherwise: YAML has escapes."""
    skills = [f"{one.name}: {one.description}" for one in harness.skills.values()]
    options = [word for given in harness.agents.values() for option in given.items() for word in option]
    texts = {
        "the instructions": harness.instructions,
        "the skills' descriptions": "\n".join(skills),
        "tools.yaml": "\n".join(harness.descriptions.values()),
        AGENTS: "\n".join(options),
    }
    return {f"{name}, as the agent reads them": text for name, text in texts.items() if text}


def _canaries(recordings: Recordings) -> list[Canary]:
    """Return the canaries of all recordings so far: the feedback agent could have read any of them."""
    found: list[Canary] = []
    for path in recordings.runs():
        with suppress(StorageError), RunReader(path) as reader:  # killed before it had a database
            found += reader.canaries()
    return found


def store_candidates(folder: ImproveFolder, candidates: Sequence[Path]) -> None:
    """Copy the operator's harnesses into the folder, by the generation that tries them.

    Raises:
        WrongUseError: one cannot be read, or is malformed.
    """
    for number, source in enumerate(candidates, 1):
        place = folder.path / "candidates" / str(number)
        write_texts(place, texts_of(source))
        (place / ".name").write_text(source.resolve().name, encoding="utf-8")
