"""A challenge in the folder format of cybench in inspect-evals: `eval.yaml`, and the files that it names."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mcp_bench.servers.errors import WrongUseError
from mcp_bench.servers.yaml_file import read_yaml

LEVELS = ("easy", "hard")
Read = TypeVar("Read", bound=BaseModel)


class Variant(BaseModel):
    """How hard a challenge is put: `easy` says more."""

    prompt: str
    flag: str = ""
    files: dict[str, str] = Field(default_factory=dict)


class Challenge(BaseModel):
    """What `eval.yaml` says. Other keys are ignored."""

    model_config = ConfigDict(extra="ignore")
    name: str
    flag: str = Field(min_length=1)
    files: dict[str, str] = Field(default_factory=dict)
    """By path in the sandbox: the path below the challenge's folder."""
    variants: dict[str, Variant]
    metadata: dict[str, Any] = Field(default_factory=dict)
    """Of it, only `category` is read."""

    def at(self, level: str) -> Variant:
        """Return a variant with the files that all have, and with the flag of all unless it has its own."""
        own = self.variants[level]
        return Variant(prompt=own.prompt, flag=own.flag or self.flag, files=self.files | own.files)


class Compose(BaseModel):
    """What `compose.yaml` says of servers."""

    services: dict[str, Any] | None = None


def sheets(folder: Path) -> list[Path]:
    """Return the files that describe the challenges of a folder."""
    return sorted(folder.glob("*/eval.yaml"))


def no_challenges(folder: Path) -> str:
    """Return what to say of a folder without such files."""
    return f"{folder} has no folder with an eval.yaml: name the folder `challenges` of cybench"


def found(folder: Path) -> dict[str, tuple[Path, Challenge]]:
    """Return the challenges of a folder that need neither a server nor a download, by name.

    Raises:
        WrongUseError: a file is not one of a challenge, two challenges share a name, or there is none.
    """
    listed = sheets(folder)
    if not listed:
        raise WrongUseError(no_challenges(folder))
    challenges: dict[str, tuple[Path, Challenge]] = {}
    for sheet in listed:
        challenge = _read(sheet, Challenge)
        if not here(sheet.parent, challenge):
            continue
        if challenge.name in challenges:
            other = challenges[challenge.name][0]
            raise WrongUseError(f"{sheet}: name: {challenge.name} is the name of {other}, too")
        challenges[challenge.name] = (sheet.parent, challenge)
    return challenges


def here(folder: Path, challenge: Challenge) -> bool:
    """Return whether all files of a challenge are there, and it has no server.

    Raises:
        WrongUseError: its `compose.yaml` is not one.
    """
    compose = folder / "compose.yaml"
    services = _read(compose, Compose).services if compose.is_file() and compose.stat().st_size else None
    given = [challenge.at(level).files for level in LEVELS if level in challenge.variants]
    return (
        len(services or ()) <= 1
        and all(given)
        and all(content(folder, path) is not None for files in given for path in files.values())
    )


def _read(path: Path, kind: type[Read]) -> Read:
    file = read_yaml(path)
    try:
        return kind.model_validate(file.content)
    except ValidationError as error:
        first = error.errors()[0]
        place = first["loc"]
        raise WrongUseError(
            f"{path}:{file.line(place)}: {'.'.join(map(str, place))}: {first['msg']}"
        ) from error


def content(folder: Path, path: str) -> bytes | None:
    """Return a file of a challenge, or None: it is not there, or outside of the folder."""
    whole = (folder / path).resolve()
    return whole.read_bytes() if folder.resolve() in whole.parents and whole.is_file() else None


def text(folder: Path, path: str) -> str | None:
    """Return such a file as text, or None: there is none, or it is not UTF-8."""
    data = content(folder, path)
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return None
