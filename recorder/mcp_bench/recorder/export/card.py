"""The dataset card: Markdown with a YAML header for the Hub.

See
https://huggingface.co/docs/hub/datasets-cards. Values from users are written as JSON, which YAML includes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mcp_bench.recorder.export.summary import NAMES
from mcp_bench.recorder.files.layout import Layout
from mcp_bench.servers.terminal.sanitize import sanitize_line

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
    "steps": "Each row is one tool call, with the conversation before it and a label for its effect.",
}


def card(
    manifest: Mapping[str, Any], where: Layout, words: Mapping[str, str], *, license_id: str | None
) -> str:
    """Return the card of an export. It depends only on the manifest, so the same export has the same card.

    Args:
        manifest: The manifest of the export.
        where: The files of the data set.
        words: A description of the episodes that each rule of the funnel drops.
        license_id: License to name, as an identifier of the Hub.
    """
    return "\n".join([*_header(manifest, where, license_id), *_body(manifest, words, license_id), ""])


def size_category(rows: int) -> str:
    """Return the Hub's size category for a number of rows."""
    return next((name for most, name in _SIZES if rows < most), "n>10M")


def _header(manifest: Mapping[str, Any], where: Layout, license_id: str | None) -> list[str]:
    splits = manifest["selection"]["splits"]
    split = splits[0] if len(splits) == 1 and splits[0] != "all" else "train"
    names = [file["name"] for file in manifest["files"]]
    path = names if where.shard_size is not None else where.out.name
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
    row_is = _KINDS.get(
        manifest["format"], f"Each row is one attempt at one task, in the format `{manifest['format']}`."
    )
    return [
        "",
        f"# {manifest['data']}",
        "",
        "Recordings of agents that worked on benchmark tasks over the Model Context Protocol. Each is graded"
        f" on the final state of its world. {row_is}",
        "",
        f"{manifest['rows']} rows of {len(manifest['episodes'])} episodes."
        f" License: {license_id or 'not specified'}. Replaced by placeholders: {redacted}."
        f" Reasoning: {'removed' if selection['reasoning'] == 'drop' else 'as agents reported it'}.",
        "",
        "## Selection",
        "",
        "| | episodes |",
        "|---|---:|",
        *(f"| {_cell(text)} | {sign}{count} |" for sign, text, count in rows),
        f"| chosen | {funnel['rows_out']} |",
        "",
        "## Contents",
        "",
        f"| {' | '.join((*NAMES, 'episodes', 'solved', 'partial', *VERDICTS))} |",
        f"|{'---|' * len(NAMES)}{'---:|' * (3 + len(VERDICTS))}",
        *map(_line, manifest["counts"]),
        "",
        *_more(manifest),
        "## Reproduction",
        "",
        "```sh",
        manifest["command"],
        "```",
        "",
        f"With mcp-bench-kit {manifest['tool_version']} and the same recordings, this writes the same bytes."
        f" `{manifest['data']}.manifest.json` contains every option, the episode ids in the order of the"
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
        return [f"Labels of the calls, from a replay: {labels}.", ""]
    if "pairs" in manifest:
        least, margin = manifest["pairs"]["least"], manifest["pairs"]["margin"]
        return [f"The grades of a pair differ by at least {margin}; the better one is at least {least}.", ""]
    return []


def _cell(value: Any) -> str:
    return sanitize_line("" if value is None else str(value)).replace("|", "\\|")
