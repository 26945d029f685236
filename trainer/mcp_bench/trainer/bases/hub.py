"""Base models of the Hugging Face Hub, at a pinned revision."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from mcp_bench.servers.errors import BenchError, MissingDependencyError, WrongUseError
from mcp_bench.servers.terminal.sanitize import sanitize_line
from mcp_bench.trainer.architectures.base_config import fault
from mcp_bench.trainer.bases.places import enough_space

WANTED = ("*.safetensors", "*.json", "*.jinja", "*.model", "*.txt", "LICENSE*", "NOTICE*", "README.md")
"""Files of a model that is trained and served. Others repeat the weights in another form."""
UNWANTED = ("original/*", "onnx/*", "consolidated*", "*.gguf", "*.bin.index.json")

NOTES = ".cache"
"""Folder in which the Hub's client notes what is complete, and has what is not."""


class UnreachableHubError(BenchError):
    """The Hub cannot be reached, or went away during a download. Repeating the command continues it."""

    may_pass = True


def download(name: str, revision: str | None, folder: Path) -> dict[str, Any]:
    """Download a model's files to a folder, continuing what is there, and return its origin.

    The Hub's client shows its progress itself.

    Args:
        name: `org/model`.
        revision: a branch, tag or commit. Default: the newest commit of `main`.
        folder: where to write.

    Raises:
        WrongUseError: there is no such model, or none with safetensors; or this account may not read it.
        UnreachableHubError: the Hub does not answer.
        BenchError: there is too little space.
    """
    try:
        from huggingface_hub import HfApi, hf_hub_download
    except ImportError as error:
        raise MissingDependencyError(
            "models of the Hub need the Python package huggingface-hub: `pip install huggingface-hub`"
        ) from error
    try:
        info = HfApi().model_info(name, revision=revision, files_metadata=True)
        files = {
            entry.rfilename: entry.size or 0 for entry in info.siblings or [] if _wanted(entry.rfilename)
        }
        if not any(file.endswith(".safetensors") for file in files):
            raise WrongUseError(f"{name} has no weights in safetensors files on the Hub")
        _delete_others(folder, files)
        here = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        enough_space(sum(files.values()) - here)
        for file in sorted(files, key=lambda file: files[file]):
            hf_hub_download(name, file, revision=info.sha, local_dir=folder)
    except BenchError:
        raise
    except Exception as error:  # the Hub's client, its HTTP library and the socket raise different types
        raise _explained(name, error) from error
    shutil.rmtree(folder / NOTES, ignore_errors=True)
    licence = info.card_data.get("license") if info.card_data else None
    return {"source": f"https://huggingface.co/{name}", "revision": info.sha, "licence": licence}


def _delete_others(folder: Path, files: Collection[str]) -> None:
    """Delete what an interrupted download left of another commit, except for the client's notes."""
    for path in folder.rglob("*"):
        name = path.relative_to(folder)
        if path.is_file() and name.parts[0] != NOTES and name.as_posix() not in files:
            path.unlink()


def _wanted(file: str) -> bool:
    return any(fnmatch(file, one) for one in WANTED) and not any(fnmatch(file, one) for one in UNWANTED)


def _explained(name: str, error: Exception) -> BenchError:
    from huggingface_hub import errors

    first = sanitize_line((str(error).strip() or type(error).__name__).splitlines()[0])
    if isinstance(error, errors.RevisionNotFoundError):
        return WrongUseError(f"{name} has no such revision on the Hub: {first}")
    if isinstance(error, errors.RepositoryNotFoundError):  # or gated
        return WrongUseError(fault(name, error))
    if isinstance(error, OSError) and error.errno is not None and error.filename is not None:
        return BenchError(f"cannot write {error.filename}: {error.strerror}")
    return UnreachableHubError(
        f"cannot download {name} from the Hub: {first}. Check the network (HF_ENDPOINT names a mirror, "
        "HF_HUB_OFFLINE forbids downloads). What was downloaded is kept: the same command continues"
    )
