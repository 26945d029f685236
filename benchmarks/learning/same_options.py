"""A folder of results belongs to the options that they were made with."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from mcp_bench.trainer.folders import read_step, store_step

NAMED = {"overrides": "set"}
"""Options whose value is stored under another name."""


def same_options(
    parser: argparse.ArgumentParser, options: argparse.Namespace, file: Path, free: tuple[str, ...]
) -> None:
    """Refuse options that differ from those of the results: these stay, and the table would be of both.

    Args:
        parser: says why it refuses.
        options: what was given.
        file: keeps the options of the first call.
        free: options that can differ.
    """
    given = {name: value for name, value in vars(options).items() if name not in free}
    wanted = json.loads(json.dumps(given, default=str))
    kept = read_step(file)
    if kept is None:
        store_step(file, wanted)
        return
    for name, value in wanted.items():
        if value != kept.get(name, value):
            option = NAMED.get(name, name).replace("_", "-")
            parser.error(
                f"--{option}: the results beside {file} are with {kept[name]}: name that, or another folder"
            )
