"""`mcp-bench harness`: edits of a harness that are made from recordings, and what its parts are worth."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mcp_bench.bridge.cli.options import judge_options, refuse_given, splits_option, with_options
from mcp_bench.recorder.cli.run_options import run_options, runs_argument

if TYPE_CHECKING:
    from mcp_bench.bridge.harness.folder import Harness
    from mcp_bench.bridge.memory.attempts import Attempt
    from mcp_bench.bridge.memory.tips import Tip
    from mcp_bench.bridge.roles.models import Roles

EPILOG = """\b
Examples:
  mcp-bench harness tips --out v1                       tips by a rule, from all recordings of train
  mcp-bench harness tips --harness v1 --judge-model M --out v2
  mcp-bench harness skills --harness v1 --out v2
  mcp-bench harness examples --harness v1 --most 3 --out v2
  mcp-bench harness recall --harness v1 --out v2
  mcp-bench harness leave-out v2 --out without && mcp-bench record --config without/matrix.yaml
  mcp-bench harness value                               what each part is worth
"""


def examples_of(*commands: str) -> str:
    """Return the examples of one of the commands below."""
    return "\b\nExamples:\n" + "".join(f"  mcp-bench {command}\n" for command in commands)


@click.group(epilog=EPILOG)
def harness() -> None:
    """Edit a harness from recordings, and measure its parts.

    Each edit is a new folder, made from graded episodes of the split train only. Measure it before you use
    it: mcp-bench record --harness FOLDER --split dev.
    """


@dataclass(frozen=True)
class Edit:
    """What all edits have: runs, the harness to edit, and where the new one goes."""

    runs: tuple[str, ...]
    run_tags: tuple[str, ...]
    before: Path | None
    out: Path
    benchmark: str | None
    as_json: bool

    def begin(self) -> tuple[dict[str, str], list[Attempt]]:
        """Return the files of the harness to edit, and the attempts to learn from.

        Raises:
            WrongUseError: the folder of the new harness exists.
        """
        from mcp_bench.bridge.memory.attempts import read_attempts
        from mcp_bench.bridge.memory.edit import files_of, refuse_existing
        from mcp_bench.recorder.verify.damage import undamaged

        refuse_existing(self.out)
        runs = undamaged(self.runs, tags=self.run_tags)
        return files_of(self.before), read_attempts(runs, self.benchmark)

    def report(self, made: Harness, attempts: Sequence[Attempt], lines: Sequence[str]) -> None:
        """Print what was added."""
        from mcp_bench.servers.terminal.sanitize import sanitize_line

        if self.as_json:
            document = {
                "out": str(self.out),
                "harness": str(made),
                "attempts": len(attempts),
                "added": list(lines),
            }
            click.echo(json.dumps(document))
            return
        for line in lines:
            click.echo(sanitize_line(line))
        click.echo(f"wrote {self.out}, the harness {made}, from {len(attempts)} episodes of train")


def edit_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of an `Edit`, which the command gets."""
    options = [
        click.option(
            "--harness",
            "before",
            type=click.Path(path_type=Path),
            metavar="DIR",
            help="The harness to edit. Default: an empty one.",
        ),
        click.option(
            "--out",
            type=click.Path(path_type=Path),
            metavar="DIR",
            required=True,
            help="The folder of the new harness.",
        ),
        click.option(
            "--benchmark",
            metavar="B",
            help="Learn from its episodes. Needed if the recordings are of several benchmarks.",
        ),
        click.option("--json", "as_json", is_flag=True, help="Print one JSON document."),
    ]

    @wraps(command)
    def with_edit(*arguments: Any, **given: Any) -> None:
        edit = Edit(**{one.name: given.pop(one.name) for one in fields(Edit)})
        command(*arguments, edit, **given)

    return with_options(run_options, *options)(with_edit)


least_option = click.option(
    "--least",
    type=click.IntRange(min=2),
    default=2,
    show_default=True,
    metavar="N",
    help="Leave out what was seen in fewer tasks.",
)
most_option = click.option(
    "--most", type=click.IntRange(min=1), default=10, show_default=True, metavar="N", help="Add at most N."
)


@harness.command(
    epilog=examples_of(
        "harness tips --out v1", "harness tips --harness v1 --judge-model M --role-limit cost=2 --out v2"
    )
)
@edit_options
@least_option
@most_option
@judge_options
@click.pass_context
def tips(
    ctx: click.Context,
    /,
    edit: Edit,
    least: int,
    most: int,
    **judge: Any,
) -> None:
    """Add tips: what goes wrong in several tasks, and what repaired it.

    By default, a rule finds them: errors of tools, and how the call differed that worked later. With
    --judge-model, a model reads the failed attempts of each family. Its answers are kept in .asked.jsonl in
    the new folder, which is no part of the harness. Each tip names the episodes that it rests on.
    """
    import os

    from mcp_bench.bridge.memory.edit import with_tips, write_edited
    from mcp_bench.bridge.memory.judge import ASKED, answers_kept, judge_of
    from mcp_bench.bridge.memory.tips import tips_by_rule
    from mcp_bench.servers.terminal.sanitize import sanitize_line

    if judge["judge_model"] is not None:
        refuse_given(ctx, ("least",), "--judge-model finds the tips without a rule")
    roles = judge_of(judge, os.environ)
    files, attempts = edit.begin()
    hidden: dict[str, str] = {}
    if roles is None:
        found = tips_by_rule(attempts, least=least, most=most)
        nothing_new(found, "no error was made in several tasks")
        made = write_edited(with_tips(files, found), edit.out)
    else:
        with answers_kept("tips", judge, [edit.runs, edit.run_tags, edit.benchmark]) as kept:
            found, problems, hidden[ASKED] = tips_of_model(attempts, roles, most, kept)
            if found:
                made = write_edited(with_tips(files, found), edit.out, hidden)
        for problem in problems:
            click.echo(sanitize_line(problem), err=True)
        nothing_new(found, "the model wrote no tip")
    lines = [f"{tip.text}  [{tip.tasks} tasks, {len(tip.episodes)} episodes]" for tip in found]
    edit.report(made, attempts, lines)


@harness.command(epilog=examples_of("harness skills --harness v1 --out v2"))
@edit_options
@least_option
@most_option
def skills(
    edit: Edit,
    least: int,
    most: int,
) -> None:
    """Add skills: the calls that all solved tasks of a family have in common."""
    from mcp_bench.bridge.memory.edit import write_edited
    from mcp_bench.bridge.memory.skills import procedures, with_skills

    files, attempts = edit.begin()
    found = procedures(attempts, least=least, most=most)
    nothing_new(found, f"no family has {least} solved tasks with two calls or more in common")
    made = write_edited(with_skills(files, found), edit.out)
    edit.report(made, attempts, [f"{one.name}: {one.description}" for one in found])


@harness.command(epilog=examples_of("harness examples --harness v1 --most 3 --out v2"))
@edit_options
@click.option(
    "--most", type=click.IntRange(min=1), default=3, show_default=True, metavar="N", help="Add at most N."
)
def examples(
    edit: Edit,
    most: int,
) -> None:
    """Put the best solved tasks into the instructions, as short texts, of different families first."""
    from mcp_bench.bridge.memory.edit import write_edited
    from mcp_bench.bridge.memory.examples import best, with_examples

    files, attempts = edit.begin()
    found = best(attempts)[:most]
    nothing_new(found, "no task was solved")
    made = write_edited(with_examples(files, found), edit.out)
    edit.report(made, attempts, [f"{one.episode.id} {one.task}" for one in found])


@harness.command(epilog=examples_of("harness recall --harness v1 --run-tag baseline --out v2"))
@edit_options
def recall(
    edit: Edit,
) -> None:
    """Add a snapshot of solved tasks, which agents search with the tool `recall`.

    It has the best attempt at each task, as many as fit into a harness. An agent that is recorded on a task
    of the snapshot does not find this task.
    """
    from mcp_bench.bridge.memory.edit import write_edited
    from mcp_bench.bridge.memory.examples import best, with_recall

    files, attempts = edit.begin()
    chosen = best(attempts)
    nothing_new(chosen, "no task was solved")
    changed, added = with_recall(files, chosen)
    made = write_edited(changed, edit.out)
    edit.report(made, attempts, [f"{added} of {len(chosen)} solved tasks can be recalled"])


@harness.command(
    name="leave-out",
    epilog=examples_of(
        "harness leave-out v2 --out without --agent codex --repeat 1",
        "record --config without/matrix.yaml --dry-run     how many episodes?",
        "record --config without/matrix.yaml",
        "harness value",
    ),
)
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="DIR", required=True, help="Where the folders go."
)
@click.option("--agent", metavar="AGENT", default="chat", show_default=True, help="Agent in the matrix file.")
@click.option("--benchmark", metavar="B", help="Benchmark in the matrix file. Default: that of `record`.")
@click.option(
    "--repeat",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    metavar="N",
    help="Episodes for each task in the matrix file.",
)
def leave_out(folder: Path, out: Path, agent: str, benchmark: str | None, repeat: int) -> None:
    """Write the harness in FOLDER without each of its parts, and a matrix file that records them all.

    The parts are tips, skills, what can be recalled, and the other files. `mcp-bench harness value` then
    says what each of them is worth.
    """
    import yaml

    from mcp_bench.bridge.harness.folder import read_harness
    from mcp_bench.bridge.memory.edit import refuse_existing, write_edited, writing
    from mcp_bench.bridge.memory.worth import left_out, parts_of
    from mcp_bench.recorder.atomic_file import write_atomic
    from mcp_bench.servers.errors import WrongUseError
    from mcp_bench.servers.registry import load
    from mcp_bench.servers.terminal.sanitize import sanitize_line

    refuse_existing(out, inside=True)
    if benchmark is not None:
        load("benchmark", benchmark)
    whole = read_harness(folder)
    parts = parts_of(whole.files)
    if len(parts) < 2:
        raise WrongUseError(
            f"{folder} has one part only: record with it and without it to see what it is worth"
        )
    folders = [str(folder.resolve())]
    for number, part in enumerate(parts, 1):
        made = out / f"without-{number}"
        write_edited(left_out(whole.files, part), made)
        folders.append(str(made.resolve()))
        click.echo(sanitize_line(f"{made}: without {part}"))
    named = {} if benchmark is None else {"benchmark": benchmark}
    matrix = {
        "name": f"without-{whole.version}",
        "record": {**named, "split": "dev", "repeat": repeat, "harness": folders},
        "agents": [{"agent": agent}],
    }
    path = out / "matrix.yaml"
    with writing(path):
        write_atomic(path, yaml.safe_dump(matrix, sort_keys=False))
    click.echo(f"Add the options of your agent to {path}, and record: mcp-bench record --config {path}")


@harness.command(epilog=examples_of("harness value", "harness value --split dev --split test --json"))
@runs_argument
@splits_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def value(named: tuple[str, ...], splits: tuple[str, ...], as_json: bool) -> None:
    """Say what each part of a harness is worth, from runs with it and without it.

    RUNs are ids; by default all runs. Two harnesses are compared if one has exactly one part more. A task
    counts if it was tried with both by the same agent and model. The part helped if the task was solved with
    it and not without it, each in more than half of the attempts, and hurt the other way round.
    """
    from mcp_bench.bridge.memory.recorded import harness_runs
    from mcp_bench.bridge.memory.worth import worths
    from mcp_bench.recorder.verify.damage import undamaged
    from mcp_bench.servers.errors import WrongUseError
    from mcp_bench.servers.terminal.sanitize import sanitize_line

    found = [
        (who, one)
        for who, recorded in sorted(harness_runs(undamaged(named), splits).items())
        for one in worths(recorded)
    ]
    if not found:
        raise WrongUseError(
            f"no two recorded harnesses differ by one part on {', '.join(splits)}. Make them with `mcp-bench "
            "harness leave-out`, and record them"
        )
    if as_json:
        rows = [{"agent": who, "harness": one.whole, "part": one.part, **one.row} for who, one in found]
        click.echo(json.dumps(rows))
        return
    for who, one in found:
        strict = one.row["strict"]
        interval = strict["difference_ci"]
        spread = f" [{interval[0]:+.3f}, {interval[1]:+.3f}]" if interval else ""
        gain = "-" if strict["difference"] is None else f"{strict['difference']:+.3f}{spread}"
        counted = f"{one.row['common_tasks']} tasks, helped {len(one.helped)}, hurt {len(one.hurt)}"
        click.echo(sanitize_line(f"{one.part} of {one.whole} ({who}): {counted}, strict {gain}"))


def tips_of_model(
    attempts: Sequence[Attempt], roles: Roles, most: int, kept: Path
) -> tuple[list[Tip], list[str], str]:
    """Return the tips of a model, what was of no use, and what was asked as JSON lines."""
    import anyio

    from mcp_bench.bridge.memory.judge import Judge, asked_lines
    from mcp_bench.bridge.memory.model_tips import tips_by_model
    from mcp_bench.servers.terminal.sanitize import sanitize_line

    def say(line: str) -> None:
        click.echo(sanitize_line(line), err=True)

    async def ask() -> tuple[list[Tip], list[str], str]:
        async with Judge(roles, kept) as judge:
            found, problems = await tips_by_model(attempts, judge, most=most, say=say)
            return found, problems, asked_lines(judge.asked)

    return anyio.run(ask)


def nothing_new(found: Sequence[object], why: str) -> None:
    """Raise FruitlessError if nothing was found."""
    from mcp_bench.servers.errors import FruitlessError

    if not found:
        raise FruitlessError(f"nothing to add: {why}. Record more tasks of train")
