"""Assertions in words: what each requires, and what was found instead, if their benchmark can say so."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from mcp_bench.servers.contracts import AssertionResult, Benchmark, BenchmarkDefaults, with_defaults
from mcp_bench.servers.errors import BenchError
from mcp_bench.servers.registry import load

_log = logging.getLogger(__name__)


def in_words(
    benchmark: str, version: str, assertions: Sequence[dict[str, Any]], final_state: Any
) -> list[dict[str, Any]]:
    """Return the stored assertions, each with two texts more: `required` and `found`.

    They are the assertion's name and detail unless the benchmark is installed in the recorded version and has
    a method `describe` (`BenchmarkDefaults`). `found` is empty for an assertion that holds.
    """
    parts = BenchmarkDefaults()
    try:
        found: Benchmark = load("benchmark", benchmark)
        if found.version == version:
            parts = with_defaults(found, BenchmarkDefaults)
    except BenchError as error:  # not installed, or broken: its own words do
        _log.info("%s", error)
    return [{**one, **_words(one, parts, final_state)} for one in assertions]


def _words(stored: dict[str, Any], parts: BenchmarkDefaults, final_state: Any) -> dict[str, str]:
    own = {"required": str(stored.get("name")), "found": str(stored.get("detail") or "")}
    try:
        required, found = parts.describe(AssertionResult.model_validate(stored), final_state)
        return {"required": str(required), "found": str(found) or own["found"]}
    except Exception as error:  # the benchmark's code, on data of any age
        _log.info("assertion %r: %s", stored.get("name"), error)
        return own
