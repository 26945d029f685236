"""`mcp-bench export`: write recordings as training data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mcp_bench.recorder.cli.options import finite, given, options_of
from mcp_bench.recorder.counted import counted
from mcp_bench.recorder.curation.selection import Selection
from mcp_bench.servers.terminal.help_sections import SectionedCommand

if TYPE_CHECKING:
    from mcp_bench.recorder.curation.pipeline import Curation
    from mcp_bench.recorder.files.layout import Layout

INSPECT = "inspect"
"""The format that is no rows: logs for Inspect's viewer."""
_NO_EFFECT = ("out", "force", "as_json", "push", "jobs")
"""Options that do not change the content of the files."""

SECTIONS = {
    "Which recordings": "run run-tag split agent model benchmark domain",
    "Which grades": "min-partial strict min-score min-par reviewed",
    "Isolation and scans": "require-isolation include-tainted clean verified",
    "Which attempts": (
        "max-error-share dedupe similarity tokenizer max-tokens best-partial best max-per-task"
        " max-per-family cohort size seed"
    ),
    "What a row contains": "format images pairs margin steps step-weight reasoning redact on-leak",
    "Output": "out shard-size compress card license push force jobs json",
}


@click.command(cls=SectionedCommand, sections=SECTIONS)
@options_of(Selection)
@click.option(
    "--format",
    "form",
    metavar="FORMAT",
    help="Format of the rows, one row for each episode, or inspect for logs to look at. Default: trl.",
)
@click.option(
    "--images",
    metavar="text|files|base64",
    help="With --format trl: what rows have of an image in a tool's result. files writes it to images/ beside"
    " OUT, once, and base64 into the row; both make rows for a vision model. By default, the text names it.",
)
@click.option(
    "--pairs",
    is_flag=True,
    help="Write preference pairs instead: the best and the worst attempt at each task, for DPO."
    " --min-partial then applies to the best one.",
)
@click.option(
    "--margin",
    type=click.FloatRange(0, 1, min_open=True),
    callback=finite,
    metavar="M",
    help="With --pairs: minimum difference between the grades of a pair. Default: 0.01.",
)
@click.option(
    "--steps",
    is_flag=True,
    help="Write one row for each call instead, labelled by a replay: progress, neutral, setback,"
    " broke_guardrail, error or repeated_error.",
)
@click.option(
    "--step-weight",
    "step_weights",
    multiple=True,
    metavar="LABEL=WEIGHT",
    help="With --format trl: the weight, 0 to 1, of the loss of turns whose calls a replay labels so"
    " (repeatable; see --steps). All other turns have 1.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="Output file: Parquet if the name ends in .parquet, otherwise JSON lines; .eval for --format"
    " inspect.",
)
@click.option(
    "--shard-size",
    type=int,
    metavar="N",
    help="Write files of N rows each, named like OUT with -00000-of-00012 before the ending.",
)
@click.option(
    "--compress",
    metavar="gzip|zstd",
    help="Compress the data. JSON lines get the ending .gz or .zst; an OUT with such an ending is compressed"
    " without this option.",
)
@click.option("--card", is_flag=True, help="Write a dataset card for the Hub, README.md, beside OUT.")
@click.option(
    "--license", "license_id", metavar="ID", help="License to name in the card, for example cc-by-4.0."
)
@click.option(
    "--push",
    metavar="REPO",
    help="Push data, manifest and card to this data set repository of the Hugging Face Hub, with the login of"
    " `hf auth login`. A repository that does not exist is created as a private one.",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    metavar="J",
    help="Number of processes. Default: one for each core, at most eight, or a single one for a small"
    " export.",
)
@click.option("--force", is_flag=True, help="Overwrite existing files.")
@click.option("--json", "as_json", is_flag=True, help="Print the manifest as one JSON document.")
def export(
    min_partial: float | None,
    form: str | None,
    images: str | None,
    pairs: bool,
    margin: float | None,
    steps: bool,
    step_weights: tuple[str, ...],
    card: bool,
    license_id: str | None,
    push: str | None,
    out: Path,
    shard_size: int | None,
    compress: str | None,
    jobs: int | None,
    force: bool,
    as_json: bool,
    **selected: Any,
) -> None:
    """Write graded recordings as training data.

    Only the last attempt at each planned episode counts. The options filter episodes in a fixed order, and
    the printed funnel shows how many episodes each filter dropped. The manifest OUT.manifest.json contains
    the funnel, every option, the episode ids and a hash of each file. The same command on the same
    recordings writes the same bytes. FORMAT is trl, openai, prime-rl, verifiers, atif, sharegpt, or a format
    that another package registers.

    With --format inspect, OUT is a log for `inspect view`, to look at and not to train on: every episode is
    in it by default, of every split, also invalid and ungraded ones. Several runs, agents or models make
    several logs.

    \b
    Examples:
      mcp-bench export --min-partial 0.5 --out train.jsonl
      mcp-bench export --strict --agent codex --agent claude-code --best 1 --out solved.jsonl
      mcp-bench export --benchmark game-2048 --min-par 0.8 --best 2 --out good-games.jsonl
      mcp-bench export --dedupe near --max-per-family 200 --redact secrets --out varied.jsonl
      mcp-bench export --cohort high --size 500 --out high.jsonl
      mcp-bench export --split all --run run_01kbf3x9qv2m8t0 --out everything.jsonl
      mcp-bench export --format sharegpt --shard-size 10000 --compress zstd --out data/train.jsonl
      mcp-bench export --format openai --out train.parquet
      mcp-bench export --images files --out vision/train.jsonl
      mcp-bench export --pairs --margin 0.3 --out preferences.jsonl
      mcp-bench export --steps --benchmark saasworld --min-partial 0 --out steps.jsonl
      mcp-bench export --step-weight error=0 --step-weight setback=0 --out weighted.jsonl
      mcp-bench export --format inspect --out logs/all.eval
      mcp-bench export --card --license cc-by-4.0 --push me/recordings --out data/train.jsonl
    """
    if form == INSPECT:
        unfit = {
            "--pairs": pairs,
            "--steps": steps,
            "--shard-size": shard_size,
            "--compress": compress,
            "--card": card,
            "--license": license_id,
            "--push": push,
            "--margin": margin is not None,
            "--cohort": selected["cohort"],
            "--images": images,
            "--step-weight": step_weights,
        }
        _export_logs(out, jobs, min_partial, selected, unfit, force=force, as_json=as_json)
        return
    from mcp_bench.recorder.curation.pipeline import Curation
    from mcp_bench.recorder.export.kinds import rows_of
    from mcp_bench.recorder.export.weighted import weights_of
    from mcp_bench.recorder.export.write import Extras
    from mcp_bench.recorder.export.write import export as write
    from mcp_bench.recorder.files.layout import layout

    if push is not None:
        from mcp_bench.recorder.export.hub import check_hub

        check_hub()
    selection = Selection(min_partial=min_partial, **given(selected))
    selection, rows = rows_of(
        selection,
        form,
        pairs=pairs,
        margin=margin,
        steps=steps,
        images=images,
        step_weights=weights_of(step_weights),
    )
    curation = Curation(selection, jobs)
    extras = Extras(card=card or push is not None, license_id=license_id, command=_command(out))
    manifest = write(
        rows, out, curation, compress=compress, shard_size=shard_size, force=force, extras=extras
    )
    other_rows = pairs or steps or bool(step_weights)
    _report(curation, "chosen" if other_rows else "rows")
    if manifest.get("images", {}).get("redacted") is False:
        click.echo("--redact does not read images: look at them before you share the data", err=True)
    data = out.with_name(manifest["data"])
    if push is not None:
        pushed = _pushed(push, manifest, layout(out, compress, shard_size))
        click.echo(f"pushed to {pushed}", err=True)
    if as_json:
        click.echo(json.dumps({"out": str(data), **manifest}))
    else:
        parts = f", in {len(manifest['files'])} files" if shard_size is not None else ""
        kind = f"{manifest['format']}{parts}"
        rows_from = f"{counted(manifest['rows'], 'row')} from " if other_rows else ""
        episodes = len(manifest["episodes"])  # some that were chosen can have given no row
        click.echo(f"wrote {rows_from}{episodes} of {curation.rows_in} episodes to {data} ({kind})")


def _export_logs(
    out: Path,
    jobs: int | None,
    min_partial: float | None,
    selected: dict[str, Any],
    unfit: dict[str, Any],
    *,
    force: bool,
    as_json: bool,
) -> None:
    from mcp_bench.recorder.curation.pipeline import Curation
    from mcp_bench.recorder.export.inspect_log import export_logs
    from mcp_bench.servers.contracts import ALL_SPLITS
    from mcp_bench.servers.errors import WrongUseError

    for option, value in unfit.items():
        if value:
            raise WrongUseError(f"{option} makes training data, and --format {INSPECT} logs: leave one out")
    chosen = {"splits": (ALL_SPLITS,), **given(selected)}
    selection = Selection(min_partial=min_partial or 0.0, **chosen)
    curation = Curation(selection, jobs, for_reading=True)
    manifest = export_logs(out, curation, force=force, command=_command(out))
    _report(curation, "rows")
    names = [str(out.with_name(file["name"])) for file in manifest["files"]]
    if as_json:
        click.echo(json.dumps({"out": str(out), **manifest}))
    else:
        click.echo(
            f"wrote {manifest['rows']} of {curation.rows_in} episodes to {', '.join(names)} ({INSPECT})"
        )


def _report(curation: Curation, left: str) -> None:
    """Print the funnel, which ends with `left`, and which rows were not compared with held-out tasks."""
    from mcp_bench.servers.terminal.sanitize import sanitize_line

    click.echo(_funnel(curation, left), err=True)
    for name, reason in curation.guard.unchecked.items():
        click.echo(sanitize_line(f"not compared with held-out tasks: rows of {name}: {reason}"), err=True)


def _funnel(curation: Curation, left: str) -> str:
    words = curation.words()
    lines = [(str(curation.rows_in), "episodes")]
    lines += [(str(-count), words[rule]) for rule, count in curation.dropped.items()]
    lines.append((str(curation.rows_out), left))
    width = max(len(count) for count, _ in lines)
    return "\n".join(f"{count:>{width}} {text}" for count, text in lines)


def _command(out: Path) -> str:
    """Return the command line that writes the same files again, in the current folder."""
    import shlex

    context = click.get_current_context()
    words = ["mcp-bench", "export"]
    for option in context.command.params:
        value = context.params[option.name or ""]
        # 0 equals False, but may be a choice
        if option.name in _NO_EFFECT or value is False or value in (None, (), option.default):
            continue
        for one in value if isinstance(value, tuple) else (value,):
            words += [option.opts[-1]] if one is True else [option.opts[-1], str(one)]
    return shlex.join([*words, "--out", out.name])


def _pushed(repository: str, manifest: dict[str, Any], where: Layout) -> str:
    from mcp_bench.recorder.export.card import NAME
    from mcp_bench.recorder.export.hub import push
    from mcp_bench.recorder.export.manifest import manifest_path

    files = [file["name"] for file in manifest["files"]]
    files += manifest.get("images", {}).get("files", [])
    names = [*files, manifest_path(where.out).name, NAME]
    message = f"{manifest['rows']} rows of mcp-bench recordings"
    return push(repository, where.folder, names, message, of_data=where.is_data)
