"""GEPA as a driver: its own package chooses the version to work on, and which ones stay in its pool.

Agrawal et al., "GEPA: Reflective Prompt Evolution Can Outperform Reinforcement Learning" (arXiv 2507.19457).
It never asks a model or runs an experiment by itself: its proposer is our request, and its score the gain
that the server measured.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any

import anyio

from mcp_bench.clients.events import ClientError
from mcp_bench.clients.search.attempt import Search

NAME = "gepa"
FAILED = -1000.0
"""The score of a version without a gain: below every log-ratio and difference."""
Propose = Callable[[str, tuple[int, ...]], Coroutine[Any, Any, None]]
"""Asks the model, and runs what it wrote."""


async def drive(search: Search, propose: Propose, more: Callable[[], bool], seed: int) -> None:
    """Propose versions for as long as there is `more` to spend.

    Raises:
        ClientError: the package is not installed.
    """
    if importlib.util.find_spec("gepa") is None:
        raise ClientError("usage", "the driver gepa needs the Python package gepa: pip install gepa")
    await anyio.to_thread.run_sync(partial(_optimize, search, propose, more, seed))


def _optimize(search: Search, propose: Propose, more: Callable[[], bool], seed: int) -> None:
    """Run GEPA in this thread. Its only example is the experiment."""
    gepa: Any = importlib.import_module("gepa")
    batch_of: Any = importlib.import_module("gepa.core.adapter").EvaluationBatch

    failed = list[Exception]()

    class Experiment:
        """What GEPA calls an adapter."""

        propose_new_texts = None

        def evaluate(self, batch: list[str], candidate: dict[str, str], capture_traces: bool = False) -> Any:
            version = search.find(candidate)
            score = FAILED if version is None or version.low is None else version.low
            said = "" if version is None else version.said
            traces = [said] * len(batch) if capture_traces else None
            return batch_of([said] * len(batch), [score] * len(batch), traces)

        def make_reflective_dataset(
            self, candidate: dict[str, str], evaluated: Any, components: list[str]
        ) -> Mapping[str, Sequence[Mapping[str, Any]]]:
            return {name: [{"Feedback": said} for said in evaluated.outputs] for name in components}

    def proposed(candidate: dict[str, str], _: object, components: list[str]) -> dict[str, str]:
        """Return the texts of the next version, which has been run: `evaluate` finds it."""
        version, before = search.find(candidate), len(search.versions)
        if version is None or failed or not more():
            return {name: candidate[name] for name in components}
        try:
            anyio.from_thread.run(propose, *search.asked([version]))
        except Exception as error:  # GEPA would go on
            failed.append(error)
        files = search.versions[-1].files if len(search.versions) > before else candidate
        return {name: files[name] for name in components}

    class Quiet:
        def log(self, message: str) -> None:
            """Say nothing: stdout has our events."""

    gepa.optimize(
        seed_candidate=dict(search.versions[0].files),
        trainset=["the experiment"],
        valset=["the experiment"],
        adapter=Experiment(),
        custom_candidate_proposer=proposed,
        module_selector="all",
        reflection_minibatch_size=1,
        skip_perfect_score=False,
        stop_callbacks=lambda _: bool(failed) or not more(),
        logger=Quiet(),
        seed=seed,
    )
    if failed:
        raise failed[0]
