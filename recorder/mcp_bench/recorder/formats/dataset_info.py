"""`dataset_info.json`, LLaMA-Factory's index of the data sets in a folder."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mcp_bench.servers.errors import WrongUseError

NAME = "dataset_info.json"


def dataset_info(folder: Path, stem: str, files: Sequence[Path]) -> str:
    """Return the index of a folder with an entry for each file of a data set.

    Other entries are kept, except those for files of the data set that it no longer has.

    Args:
        folder: The folder of the index.
        stem: Name of the entry. If there are several files, entries have their names.
        files: The files of the data set.

    Raises:
        WrongUseError: the existing index cannot be read.
    """
    path = folder / NAME
    index: Any = {}
    if path.exists():
        try:
            index = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise WrongUseError(
                f"cannot read {path}: {error}. Repair it, or choose another folder"
            ) from error
        if not isinstance(index, dict):
            raise WrongUseError(f"{path} is not a JSON object. Repair it, or choose another folder")
    parts = [file.name.removeprefix(stem).partition(".") for file in files]
    ending = "".join(parts[0][1:])
    of_data = re.compile(rf"{re.escape(stem)}(?:-\d{{5,}}-of-\d{{5,}})?{re.escape(ending)}")
    written = {file.name for file in files}
    index = {
        name: entry
        for name, entry in index.items()
        if (named := _file_of(entry)) in written or not of_data.fullmatch(named)
    }
    for file, (part, _, _) in zip(files, parts, strict=True):
        name = stem if len(files) == 1 else stem + part
        index[name] = {
            "file_name": file.name,
            "formatting": "sharegpt",
            "columns": {"messages": "conversations", "system": "system", "tools": "tools"},
        }
    return json.dumps(index, indent=2, ensure_ascii=False) + "\n"


def _file_of(entry: Any) -> str:
    return str(entry.get("file_name")) if isinstance(entry, dict) else ""
