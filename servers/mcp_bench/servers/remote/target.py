"""Import the benchmark that a worker is for."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

from mcp_bench.servers.contracts import Benchmark
from mcp_bench.servers.errors import MissingDependencyError, WrongUseError


def load_target(target: str) -> Benchmark:
    """Import the benchmark that `module:attribute` or `file.py:attribute` names.

    With `?FOLDER` after it, the benchmark works on that folder (its method `at`).

    Raises:
        MissingDependencyError: a package is missing.
        WrongUseError: there is no such file or attribute, or the benchmark works on no folder.
    """
    named, _, folder = target.partition("?")
    place, _, attribute = named.rpartition(":")
    if place.endswith(".py") and not Path(place).is_file():
        raise WrongUseError(f"there is no benchmark at {target!r}: no such file")
    try:
        if place.endswith(".py"):
            spec = importlib.util.spec_from_file_location(Path(place).stem, place)
            assert spec is not None and spec.loader is not None  # noqa: S101 - true for every .py path
            module = importlib.util.module_from_spec(spec)
            sys.modules[spec.name] = module
            spec.loader.exec_module(module)
        else:
            module = importlib.import_module(place)
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            f"the Python package {error.name!r} is not installed in {sys.executable}"
        ) from error
    if not hasattr(module, attribute):
        raise WrongUseError(f"there is no benchmark at {target!r}: {place} defines no {attribute!r}")
    found: Any = getattr(module, attribute)
    if folder and not hasattr(found, "at"):
        raise WrongUseError(f"the benchmark at {named!r} works on no folder: leave out {folder!r}")
    benchmark: Benchmark = found.at(folder) if folder else found
    return benchmark
