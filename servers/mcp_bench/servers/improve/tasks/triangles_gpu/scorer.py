"""The matrices of `triangles`, larger."""

from random import Random
from typing import Any

from mcp_bench.servers.improve.tasks.triangles.scorer import question as matrices


def question(rng: Random, part: str, settings: dict[str, Any]) -> list[Any]:
    return [*matrices(rng, part, settings), settings["rounds"]]
