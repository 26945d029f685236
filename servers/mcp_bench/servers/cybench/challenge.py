"""A challenge in the folder format of cybench in inspect-evals: `eval.yaml`, and the files that it names."""

from __future__ import annotations

from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mcp_bench.servers.errors import WrongUseError


class Variant(BaseModel):
    """How hard a challenge is put: `easy` says more."""

    prompt: str
    files: dict[str, str] = Field(default_factory=dict)


class Challenge(BaseModel):
    """What `eval.yaml` says. Other keys are ignored."""

    model_config = ConfigDict(extra="ignore")
    name: str
    flag: str = Field(min_length=1)
    files: dict[str, str] = Field(default_factory=dict)
    """By path in the sandbox: the path below the challenge's folder."""
    variants: dict[str, Variant]
    metadata: dict[str, str | int | float] = Field(default_factory=dict)


def found(folder: Path) -> dict[str, tuple[Path, Challenge]]:
    """Return the challenges of a folder that need neither a server nor a download, by name.

    Raises:
        WrongUseError: an `eval.yaml` is not one of a challenge, or there is none.
    """
    sheets = sorted(folder.glob("*/eval.yaml"))
    if not sheets:
        raise WrongUseError(
            f"{folder} has no folder with an eval.yaml: name the folder `challenges` of cybench"
        )
    challenges = {}
    for sheet in sheets:
        try:
            challenge = Challenge.model_validate(yaml.safe_load(sheet.read_text(encoding="utf-8")))
        except (ValidationError, yaml.YAMLError, UnicodeDecodeError) as error:
            raise WrongUseError(f"{sheet} is no challenge: {error}") from error
        if here(sheet.parent, challenge):
            challenges[challenge.name] = (sheet.parent, challenge)
    return challenges


def here(folder: Path, challenge: Challenge) -> bool:
    """Return whether all files of a challenge are there, and it has no server."""
    compose = folder / "compose.yaml"
    services = (
        (yaml.safe_load(compose.read_text(encoding="utf-8")) or {}).get("services", {})
        if compose.is_file()
        else {}
    )
    return (
        len(services) <= 1
        and bool(challenge.files)
        and all(content(folder, path) is not None for path in challenge.files.values())
    )


def content(folder: Path, path: str) -> bytes | None:
    """Return a file of a challenge, or None: it is not there, or outside of the folder."""
    whole = (folder / path).resolve()
    return whole.read_bytes() if folder.resolve() in whole.parents and whole.is_file() else None
