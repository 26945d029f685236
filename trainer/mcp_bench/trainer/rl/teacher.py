"""Whom a policy follows: itself with hints (SDPO), or another model (on-policy distillation)."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from mcp_bench.trainer.engine.app import Policy
from mcp_bench.trainer.engine.load import Loaded
from mcp_bench.trainer.folders import once
from mcp_bench.trainer.recipe import Recipe
from mcp_bench.trainer.rl.collect import Rollouts
from mcp_bench.trainer.rl.credit.algorithms import ALGORITHMS, Attempt
from mcp_bench.trainer.rl.folder import RLFolder, RunSettings
from mcp_bench.trainer.rl.guards import CollapsedError, InvalidEpisodesError
from mcp_bench.trainer.rl.policy_server import load_policy, serve_policy
from mcp_bench.trainer.rl.together import several


class OtherModel:
    """Another model as the teacher."""

    def __init__(self, loaded: Loaded, figures: Path) -> None:
        """Prepare.

        Args:
            loaded: the model.
            figures: file for what it earned.
        """
        self._loaded, self._figures = loaded, figures

    def check(self, rollouts: Rollouts, place: Path, seed: int, attempts: Sequence[Attempt]) -> None:
        """Let the teacher attempt the tasks of the first step, as often as the policy did. Once in a run.

        Args:
            rollouts: those of the policy.
            place: the step's folder.
            seed: of the worlds.
            attempts: the policy's.

        Raises:
            CollapsedError: the teacher earned less than the policy, or nothing.
            InvalidEpisodesError: it has no valid attempt.
        """

        def measure() -> dict[str, Any]:
            with serve_policy(self._loaded, "teacher", Policy(lambda: "teacher")) as endpoint:
                theirs = replace(rollouts, endpoint=endpoint, model="teacher")
                tasks = list(dict.fromkeys(attempt.task for attempt in attempts))
                made = theirs.attempts(place, "teacher", tasks, seed)
            if all(attempt.reward is None for attempt in made):
                raise InvalidEpisodesError("no attempt of the teacher is valid, so nothing is known about it")
            return {"reward": _reward(made), "policy": _reward(attempts), "episodes": len(made)}

        found = once(self._figures, measure)
        if not found["reward"]:
            raise CollapsedError(
                f"the teacher earned nothing with {found['episodes']} attempts at the tasks of the first step"
            )
        if found["reward"] < found["policy"]:
            raise CollapsedError(
                f"the teacher is worse than the policy: it earned {found['reward']:.3f} with "
                f"{found['episodes']} attempts at the same tasks, the policy {found['policy']:.3f}"
            )


def make_teacher(
    reference: Any, folder: RLFolder, settings: RunSettings, recipe: Recipe
) -> tuple[Any, OtherModel | None]:
    """Return the model that a policy follows, and the same as `OtherModel` if it is another one.

    Args:
        reference: the start, frozen.
        folder: the run's.
        settings: what was asked for.
        recipe: the recipe.
    """
    kind = ALGORITHMS[settings.algorithm].teacher
    if kind == "self":
        frozen = recipe.rl.distillation.teacher == "frozen"
        return (reference if frozen else copy.deepcopy(reference)), None
    if kind is None:
        return None, None
    assert settings.teacher is not None  # noqa: S101 - checked at the start
    loaded = load_policy(folder.path / "teacher.jinja", settings.teacher, recipe)
    loaded.model.requires_grad_(requires_grad=False)
    # of several processes, each gets a part of a copy: the engine keeps the whole
    model = copy.deepcopy(loaded.model) if several() else loaded.model
    return model, OtherModel(loaded, folder.teacher)


def _reward(attempts: Sequence[Attempt]) -> float:
    earned = [attempt.reward for attempt in attempts if attempt.reward is not None]
    return fmean(earned) if earned else 0.0
