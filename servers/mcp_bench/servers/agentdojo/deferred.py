"""Import AgentDojo's tasks without the SDKs of its own agents: one second instead of seven.

Its tasks share a package with its agents, whose modules import the SDKs of four model vendors. Here that
package is imported without running it; it runs as soon as somebody asks for something that only running
defines. DeepDiff imports pandas and polars if they are there, for tables, which no task has.

Only the worker process imports this module, before any other that imports AgentDojo.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec, module_from_spec
from typing import Any

AGENTS = "agentdojo.agent_pipeline"
GOOGLE = "agentdojo.agent_pipeline.llms.google_llm"
TABLES = ("pandas", "polars")
EMPTY_FUNCTION_NAME = "<empty-function-name>"
"""All that the tasks' modules need of `GOOGLE`."""


def import_lightly() -> None:
    """Defer what AgentDojo's tasks do not use. Without AgentDojo, and after its import, do nothing."""
    if AGENTS in sys.modules or find_spec("agentdojo") is None:
        return
    defer(AGENTS)
    defer(GOOGLE, EMPTY_FUNCTION_NAME=EMPTY_FUNCTION_NAME)
    with hidden(*TABLES):
        importlib.import_module("deepdiff")


def defer(name: str, **known: object) -> None:
    """Import a module without running it. It runs as soon as an attribute is needed that is not `known`."""
    spec = find_spec(name)
    if spec is None or spec.loader is None:  # another version of AgentDojo has no such module
        return
    module = module_from_spec(spec)
    loader = spec.loader

    def run(attribute: str) -> Any:
        if attribute.startswith("__") or "__getattr__" not in vars(module):
            raise AttributeError(f"module {name!r} has no attribute {attribute!r}")
        del module.__getattr__
        loader.exec_module(module)
        return getattr(module, attribute)

    vars(module).update(known, __getattr__=run)
    sys.modules[name] = module


@contextmanager
def hidden(*names: str) -> Iterator[None]:
    """Have imports of these packages fail, as if they were not installed."""
    absent = [name for name in names if name not in sys.modules]
    for name in absent:
        sys.modules[name] = None  # type: ignore[assignment]  # importing it raises ModuleNotFoundError
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]


import_lightly()
from agentdojo.task_suite.load_suites import get_suites  # noqa: E402

__all__ = ["get_suites"]
