"""LLaMA-Factory's index of the data sets in a folder, `dataset_info.json`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mcp_bench.servers.errors import WrongUseError

NAME = "dataset_info.json"


def dataset_info(folder: Path, stem: str, files: Sequence[Path]) -> str:
    """Return the index of `folder` with an entry for each of the files of a data set: `stem`, or, where there
    are several, their names. Entries of other data sets stay.

    Raises:
        WrongUseError: there is one that cannot be read.
    """
    path = folder / NAME
    index: Any = {}
    if path.exists():
        try:
            index = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise WrongUseError(
                f"{path} cannot be read: {error}. Mend it, or choose another folder"
            ) from error
        if not isinstance(index, dict):
            raise WrongUseError(f"{path} is no JSON object. Mend it, or choose another folder")
    for file in files:
        name = stem if len(files) == 1 else file.name.partition(".")[0]
        index[name] = {
            "file_name": file.name,
            "formatting": "sharegpt",
            "columns": {"messages": "conversations", "system": "system", "tools": "tools"},
        }
    return json.dumps(index, indent=2, ensure_ascii=False) + "\n"
