"""Read a base's configuration without loading it: a folder, a GGUF file, or a name on the Hub."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mcp_bench.servers.errors import WrongUseError
from mcp_bench.servers.terminal.sanitize import sanitize_line

GGUF = ".gguf"
CONFIG = "config.json"
SECTIONS = ("text_config", "quantization_config")
"""Parts of a configuration that are objects, where they are."""
ASKED = (CONFIG, "tokenizer.json", "tokenizer_config.json")
"""If one of these is in the Hub client's cache, the model was used before."""


class UnusableBaseError(WrongUseError):
    """A base that cannot be used. The text says why, and what to do."""


def read_config(base: str) -> dict[str, Any]:
    """Return the content of a folder's or Hub name's `config.json`.

    Raises:
        UnusableBaseError: it cannot be had.
    """
    folder = Path(base)
    if folder.is_dir():
        file = folder / CONFIG
        if not file.is_file():
            raise UnusableBaseError(f"model.base: {base} has no {CONFIG}: is this the folder of a model?")
    elif folder.exists() or base.startswith(("/", "./", "../", "~")):
        what = "is a file, but not .gguf" if folder.exists() else "does not exist"
        raise UnusableBaseError(f"model.base: {base} {what}: use a model's folder, a GGUF file or a Hub name")
    elif "/" not in base:
        raise UnusableBaseError(
            f"model.base: there is no folder {base}. Fetch a known base with `mcp-bench train base`, or use "
            "a folder or a Hub name (ORGANISATION/MODEL)"
        )
    else:
        file = _from_hub(base)
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UnusableBaseError(f"model.base: cannot read {file}: {error}") from error
    if not isinstance(content, dict) or not isinstance(content.get("model_type"), str):
        raise UnusableBaseError(f"model.base: {file} has no model_type: is this the folder of a model?")
    for name in SECTIONS:
        if not isinstance(content.get(name) or {}, dict):
            raise UnusableBaseError(f"model.base: {name} in {file} is not an object: the file is damaged")
    return content


def is_gguf(base: str) -> bool:
    return base.endswith(GGUF) and Path(base).is_file()


def place(base: str) -> dict[str, Any]:
    """Return the arguments of transformers' `from_pretrained` for a folder, GGUF file or Hub name.

    Code of a model's repository is never run.
    """
    if is_gguf(base):
        path = Path(base)
        return {
            "pretrained_model_name_or_path": str(path.parent),
            "gguf_file": path.name,
            "trust_remote_code": False,
        }
    return {"pretrained_model_name_or_path": base, "trust_remote_code": False}


def refuse_quantised(content: dict[str, Any], base: str) -> None:
    """Check that the weights can be trained.

    Raises:
        UnusableBaseError: they are quantised in a form that is not converted on loading.
    """
    method = (content.get("quantization_config") or {}).get("quant_method")
    if method not in (None, "mxfp4"):
        raise UnusableBaseError(
            f"model.base: the weights of {base} are quantised ({method}), and cannot be trained: use the "
            "model that they were made from"
        )


def fault(base: str, error: BaseException) -> str:
    """Return why a base cannot be loaded and what to do, from an error of transformers or the Hub."""
    from huggingface_hub import errors

    chain = list(_chain(error))
    if any(isinstance(one, errors.GatedRepoError) for one in chain):
        return (
            f"{base} is gated: ask for access at https://huggingface.co/{base}, then log in with "
            "`hf auth login`, or set HF_TOKEN"
        )
    if any(isinstance(one, errors.RepositoryNotFoundError) for one in chain):
        return (
            f"there is no folder or file {base}, and no such model on the Hub. If it is private, log in with "
            "`hf auth login`, or set HF_TOKEN"
        )
    if any(isinstance(one, errors.HFValidationError) for one in chain):
        return f"there is no folder or file {base}, and it is no name of the Hub (ORGANISATION/MODEL)"
    statuses = [one.response.status_code for one in chain if isinstance(one, errors.HfHubHTTPError)]
    if any(status in (401, 403) for status in statuses):
        return f"no access to {base} on the Hub: log in with `hf auth login`, or set HF_TOKEN"
    offline = (errors.OfflineModeIsEnabled, errors.LocalEntryNotFoundError, ConnectionError, TimeoutError)
    if any(isinstance(one, offline) for one in chain):
        return (
            f"there is no folder or file {base}, and the Hub cannot be reached. Fetch the model where there "
            "is a network, and pass its folder"
        )
    lines = str(error).strip().splitlines()
    return sanitize_line(lines[0] if lines else type(error).__name__)


def ask_hub(name: str) -> None:
    """Ask the Hub once for a model, unless files of it are in the Hub client's cache.

    Downloads are tried six times, with growing pauses: without a network, a tokenizer took a minute.

    Raises:
        ConnectionError: it cannot be reached.
        ValueError: it has no such names.
    """
    from huggingface_hub import HfApi, errors, try_to_load_from_cache

    if any(isinstance(try_to_load_from_cache(name, file), str) for file in ASKED):
        return
    try:
        HfApi().model_info(name)
    except (ValueError, ConnectionError):
        raise
    except errors.HfHubHTTPError:
        return  # the download explains it better
    except Exception as error:  # those of its HTTP library
        raise ConnectionError(str(error)) from error


def _from_hub(name: str) -> Path:
    from huggingface_hub import hf_hub_download, try_to_load_from_cache

    try:
        cached = try_to_load_from_cache(name, CONFIG)
        if isinstance(cached, str):
            return Path(cached)
        ask_hub(name)
        return Path(hf_hub_download(name, CONFIG))
    except Exception as error:  # the Hub's client raises its own errors, and those of its HTTP library
        raise UnusableBaseError(f"model.base: {fault(name, error)}") from error


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and what caused it."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__
