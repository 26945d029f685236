"""What a task needs of the machine, by name: `Task.needs`.

`program:NAME` is a program on PATH (`program:java`), `memory:GIB` is that much memory, `gpu` is a GPU.
`model:ROLE` is a model that plays a role in the world (`model:user`): the operator names it. `sandbox` is an
engine that runs sandboxes: `mcp-bench doctor` looks for one, and `record` before the first episode.
`container:WHY` is an image that only docker or podman can build; `files:WHAT` is missing in the task's files,
and `package:NAME` a Python package that the benchmark's Python lacks.
"""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, get_args

Role = Literal["user", "judge", "opponent"]
ROLES: tuple[Role, ...] = get_args(Role)
NEED = "model:"
"""Begins what a task needs if its world asks a role, such as `model:user`."""
SANDBOX = "sandbox"
CONTAINER = "container"
PACKAGE = "package:"
GPU = "gpu"
GPUS = ("/dev/nvidiactl", "/dev/kfd")


def needed_role(need: str) -> Role | None:
    """Return the role that a need of a task names, or None if it names none."""
    return next((role for role in ROLES if need == f"{NEED}{role}"), None)


def unmet(needs: Iterable[str]) -> list[str]:
    """Return why a task with these needs cannot run on this machine: one reason per need that it lacks."""
    return [reason for need in needs if (reason := missing(need)) is not None]


def missing(need: str) -> str | None:
    """Return why this machine lacks what a task needs, or None if it has it."""
    kind, _, value = need.partition(":")
    match kind:
        case "program" if value:
            return None if shutil.which(value) else f"there is no program {value!r} on PATH"
        case "memory" if value.isdigit():
            here = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
            return (
                None
                if here >= int(value)
                else f"it needs {value} GiB of memory; this machine has {math.floor(here * 10) / 10:g}"
            )
        case _ if need == SANDBOX:
            return None  # the trusted side knows the engines
        case "container" if value:
            return f"its environment must be built by docker or podman: {value}"
        case "files" if value:
            return f"the task has no {value}"
        case "package" if value:
            return f"its Python has no package {value}: pip install {value}"
        case _ if need == GPU:
            return None if any(Path(gpu).exists() for gpu in GPUS) else "there is no GPU"
        case "model" if (role := needed_role(need)) is not None:
            return f"it needs a model that plays the {role}: name one with `record --{role}-model NAME`"
    return f"it needs {need!r}, which this version of mcp-bench does not know"
