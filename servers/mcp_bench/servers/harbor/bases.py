"""Which folder or machine stands for the image that a Dockerfile begins with."""

from __future__ import annotations

import tomllib
from fnmatch import fnmatchcase
from pathlib import Path

from pydantic import Field, ValidationError

from mcp_bench.servers.base_model import Model
from mcp_bench.servers.errors import WrongUseError
from mcp_bench.servers.home import home
from mcp_bench.servers.sandbox import HOST_BASE


class Bases(Model):
    """The file `harbor/bases.toml` in the home of mcp-bench.

    Patterns are those of a shell; the first match counts.
    """

    images: dict[str, str] = Field(default_factory=dict)
    """By pattern of a name after FROM: a folder with the exported image, or `host`."""
    tasks: dict[str, str] = Field(default_factory=dict)
    """By pattern of a task id: a folder with the image that the task's Dockerfile makes, already built."""

    def image(self, name: str) -> str:
        """Return the base of an image: this machine's /usr, unless the file names another one."""
        return _first(self.images, name) or HOST_BASE

    def built(self, task_id: str) -> str | None:
        """Return the folder of a task's built image, if the file names one."""
        return _first(self.tasks, task_id)


def bases_file() -> Path:
    return home() / "harbor" / "bases.toml"


def read_bases() -> Bases:
    """Return the operator's table, which is empty if there is no file.

    Raises:
        WrongUseError: it cannot be read.
    """
    file = bases_file()
    try:
        return Bases.model_validate(tomllib.loads(file.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return Bases()
    except ValidationError as error:
        first = error.errors()[0]
        raise WrongUseError(f"{file}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    except (OSError, ValueError) as error:  # no UTF-8, or no TOML
        raise WrongUseError(f"{file} cannot be read: {error}") from error


def _first(table: dict[str, str], name: str) -> str | None:
    return next((value for pattern, value in table.items() if fnmatchcase(name, pattern)), None)
