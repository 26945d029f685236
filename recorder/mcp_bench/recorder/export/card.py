"""The dataset card: Markdown with the header that the Hub reads.

https://huggingface.co/docs/hub/datasets-cards. JSON is YAML, so values that users gave are written as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mcp_bench.recorder.export.summary import NAMES
from mcp_bench.recorder.files.layout import Layout
from mcp_bench.servers.sanitize import sanitize_line

NAME = "README.md"
VERDICTS = ("clean", "tainted", "verified")
_SIZES = (
    (1_000, "n<1K"),
    (10_000, "1K<n<10K"),
    (100_000, "10K<n<100K"),
    (1_000_000, "100K<n<1M"),
    (10_000_000, "1M<n<10M"),
)
_KINDS = {
    "pairs": "Each row has two attempts at one task: the better one is `chosen`, the worse one `rejected`.",
    "steps": "Each row is one tool call, with the conversation up to it, and a label for what it did.",
}


def card(
    manifest: Mapping[str, Any], where: Layout, words: Mapping[str, str], *, license_id: str | None
) -> str:
    """Return the card of an export; it tells what the manifest tells, so the same export has the same one.

    `words` say what each rule of the funnel drops.
    """
    return "\n".join([*_header(manifest, where, license_id), *_body(manifest, words, license_id), ""])


def size_category(rows: int) -> str:
    """Return the Hub's word for a number of rows."""
    return next((name for most, name in _SIZES if rows < most), "n>10M")


def _header(manifest: Mapping[str, Any], where: Layout, license_id: str | None) -> list[str]:
    splits = manifest["selection"]["splits"]
    split = splits[0] if len(splits) == 1 and splits[0] != "all" else "train"
    path = where.out.name if where.shard_size is None else f"{where.stem}-*{where.ending}"
    tags = ["mcp", "agents", "tool-use", "mcp-bench", *(["dpo"] if manifest["format"] == "pairs" else [])]
    header = {
        "pretty_name": where.stem,
        **({"license": license_id} if license_id else {}),
        "task_categories": ["text-generation"],
        "size_categories": [size_category(manifest["rows"])],
        "tags": tags,
        "configs": [{"config_name": "default", "data_files": [{"split": split, "path": path}]}],
    }
    return [
        "---",
        *(f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in header.items()),
        "---",
    ]


def _body(manifest: Mapping[str, Any], words: Mapping[str, str], license_id: str | None) -> list[str]:
    funnel, selection = manifest["funnel"], manifest["selection"]
    dropped = [(str(count), words[rule]) for rule, count in funnel["dropped"].items() if count]
    rows = [
        ("", "episodes recorded", str(funnel["rows_in"])),
        *(("-", text, count) for count, text in dropped),
    ]
    redacted = ", ".join(selection["redact"]) or "nothing"
    what = _KINDS.get(
        manifest["format"], f"Each row is one attempt at one task, in the format `{manifest['format']}`."
    )
    return [
        "",
        f"# {manifest['data']}",
        "",
        "Recordings of agents that solved benchmark tasks over the Model Context Protocol, each graded on the"
        f" final state of its world. {what}",
        "",
        f"{manifest['rows']} rows of {len(manifest['episodes'])} episodes."
        f" License: {license_id or 'none was given'}. Replaced by placeholders: {redacted}."
        f" Reasoning: {'left out' if selection['reasoning'] == 'drop' else 'as the agents told it'}.",
        "",
        "## What was chosen",
        "",
        "| | episodes |",
        "|---|---:|",
        *(f"| {_cell(text)} | {sign}{count} |" for sign, text, count in rows),
        f"| chosen | {funnel['rows_out']} |",
        "",
        "## What is in it",
        "",
        f"| {' | '.join((*NAMES, 'episodes', 'solved', 'partial', *VERDICTS))} |",
        f"|{'---|' * len(NAMES)}{'---:|' * (3 + len(VERDICTS))}",
        *map(_line, manifest["counts"]),
        "",
        *_more(manifest),
        "## How to make it again",
        "",
        "```sh",
        manifest["command"],
        "```",
        "",
        f"With mcp-bench-kit {manifest['tool_version']} and the same recordings this writes the same bytes."
        f" `{manifest['data']}.manifest.json` has every option, the ids of the episodes in the order of the"
        " rows, and the hash of each file:",
        "",
        *(
            f"- `{file['name']}`: {file['rows']} rows, SHA-256 `{file['sha256']}`"
            for file in manifest["files"]
        ),
    ]


def _line(counts: Mapping[str, Any]) -> str:
    names = [_cell(counts[name]) for name in NAMES]
    numbers = [str(counts["episodes"]), str(counts["strict"]), f"{counts['partial']:.3f}"]
    return "| " + " | ".join([*names, *numbers, *(str(counts[n]) for n in VERDICTS)]) + " |"


def _more(manifest: Mapping[str, Any]) -> list[str]:
    if "steps" in manifest:
        labels = ", ".join(f"{count} {label}" for label, count in manifest["steps"]["labels"].items())
        return [f"Labels of the calls, by replay: {labels}.", ""]
    if "pairs" in manifest:
        least, margin = manifest["pairs"]["least"], manifest["pairs"]["margin"]
        return [f"The grades of a pair differ by {margin} or more; the better one is {least} or more.", ""]
    return []


def _cell(value: Any) -> str:
    return sanitize_line("" if value is None else str(value)).replace("|", "\\|")
