"""Merge a LoRA adapter into its base weights, so that any engine serves it at full speed."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from mcp_bench.servers.errors import BenchError, WrongUseError
from mcp_bench.trainer.base_weights import load_weights
from mcp_bench.trainer.bases import located
from mcp_bench.trainer.serving.checkpoint import ADAPTER, MORE_TEMPLATES, TEMPLATE, read_json, read_model

WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin")
MADE_FROM = "made_from.sha256"
"""File in the merged folder with the digest of the adapter."""
LOCK, UNFINISHED = ".merge.lock", ".merged-"


def merge_adapter(folder: Path) -> Path:
    """Merge an adapter into FOLDER/merged and return that path. Merges again only if the adapter changed.

    Tokenizer, chat template and generation settings are the adapter's if it has them, else the base's. The
    merged folder is renamed into place, so it is always complete. One process at a time merges an adapter.

    Raises:
        WrongUseError: adapter or base model are missing or do not match, or neither has a tokenizer.
        BenchError: the merged model cannot be written.
    """
    from safetensors import SafetensorError

    weights = next((folder / name for name in WEIGHTS if (folder / name).is_file()), None)
    if weights is None:
        raise WrongUseError(
            f"{folder} has {ADAPTER} but no weights ({WEIGHTS[0]}): did the training run finish?"
        )
    base = read_json(folder / ADAPTER).get("base_model_name_or_path")
    if not isinstance(base, str) or not base:
        raise WrongUseError(f"{folder / ADAPTER} does not name its base model (base_model_name_or_path)")
    base = located(base)  # a fetched base needs no network
    beside = sorted(path for path in folder.iterdir() if path.suffix in (".json", ".jinja"))
    merged, digest = folder / "merged", _digest(weights, *beside)
    if _made_from(merged) == digest:
        return merged
    if Path(base).is_dir():
        read_model(Path(base))  # tokenizer and template may be the adapter's
    elif base.startswith(("/", ".")):
        raise WrongUseError(f"the base model of {folder} is not at {base}: restore it, or edit {ADAPTER}")
    tokenizer = _tokenizer(base, folder)  # before the weights, which may take minutes
    try:
        with (folder / LOCK).open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # the kernel releases it when this process dies, however it dies
            if _made_from(merged) != digest:  # otherwise another process was faster, and may be loading it
                _merge(base, folder, tokenizer, digest)
    except (OSError, SafetensorError) as error:  # the latter, too, if the disk is full
        raise BenchError(f"cannot write the merged model to {merged}: {error}") from error
    return merged


def _made_from(merged: Path) -> str | None:
    mark = merged / MADE_FROM
    return mark.read_text(encoding="ascii") if mark.is_file() else None


def _merge(base: str, folder: Path, tokenizer: Any, digest: str) -> None:
    for left in folder.glob(f"{UNFINISHED}*"):  # by a process that was killed: this one has the lock
        shutil.rmtree(left)
    model, merged = _load(base, folder), folder / "merged"
    made = Path(mkdtemp(prefix=UNFINISHED, dir=folder))
    try:
        _write(model, tokenizer, folder, made)
        (made / MADE_FROM).write_text(digest, encoding="ascii")
        made.chmod(0o755)
        if merged.exists():
            shutil.rmtree(merged)
        made.rename(merged)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _tokenizer(base: str, folder: Path) -> Any:
    from transformers import AutoTokenizer

    own = (folder / "tokenizer.json").is_file() or (folder / "tokenizer_config.json").is_file()
    place = str(folder) if own else base
    try:
        return AutoTokenizer.from_pretrained(place)
    except Exception as error:  # transformers and the Hub client raise different types
        raise WrongUseError(
            f"cannot read a tokenizer from {place}: {_first_line(error)}. Put tokenizer.json and "
            f"tokenizer_config.json into {folder}"
        ) from error


def _load(base: str, folder: Path) -> Any:
    from peft import PeftModel

    try:
        model = load_weights(base, dtype="auto")
        return PeftModel.from_pretrained(model, str(folder)).merge_and_unload(safe_merge=True)
    except Exception as error:  # transformers, peft and the Hub client raise different types
        raise WrongUseError(f"cannot merge the adapter {folder} into {base}: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__


def _write(model: Any, tokenizer: Any, folder: Path, made: Path) -> None:
    from transformers import GenerationConfig

    if (folder / "generation_config.json").is_file():
        model.generation_config = GenerationConfig.from_pretrained(str(folder))
    model.save_pretrained(str(made))
    tokenizer.save_pretrained(str(made))
    template = folder / TEMPLATE
    if template.is_file():
        shutil.rmtree(made / MORE_TEMPLATES, ignore_errors=True)  # the base's
        shutil.copyfile(template, made / template.name)


def _digest(*files: Path) -> str:
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()
