"""Learn from reward: roll out groups, give credit, update the policy, and watch it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from transformers.utils.logging import disable_progress_bar

from mcp_bench.recorder.scores.task_names import family
from mcp_bench.servers.errors import WrongUseError
from mcp_bench.trainer.engine.app import Policy
from mcp_bench.trainer.folders import locked, once
from mcp_bench.trainer.recipe import Recipe
from mcp_bench.trainer.rl.collect import Rollouts
from mcp_bench.trainer.rl.credit.algorithms import ALGORITHMS, Attempt, Weighted
from mcp_bench.trainer.rl.credit.hints import Hints
from mcp_bench.trainer.rl.curriculum import Curriculum
from mcp_bench.trainer.rl.folder import RLFolder, RunSettings
from mcp_bench.trainer.rl.guards import CollapsedError, InvalidEpisodesError, Watch
from mcp_bench.trainer.rl.policy_server import load_policy, serve_policy
from mcp_bench.trainer.rl.prepare import load_alone, make_learner
from mcp_bench.trainer.rl.together import several
from mcp_bench.trainer.rl.trackers import Track
from mcp_bench.trainer.rl.vllm_engine import with_engine
from mcp_bench.trainer.sft.model import save_result, set_generation
from mcp_bench.trainer.trial.measuring import model_name
from mcp_bench.trainer.trial.recorder import Recorder
from mcp_bench.trainer.trial.scores import scores

Report = Callable[[str], object]
RolledOut = tuple[list[Attempt], list[Weighted], float]
"""All attempts of a step, the rows to learn from, and the share of flat groups."""


def learn(
    folder: RLFolder, recipe: Recipe, report: Report, track: Track = lambda line: None
) -> dict[str, Any]:
    """Run the remaining steps and return a summary.

    Args:
        folder: the run's.
        recipe: the recipe.
        report: gets a line of text for each step.
        track: gets the figures of each step.

    Raises:
        CollapsedError: a guard stopped the run.
        InvalidEpisodesError: too many episodes are invalid. Calling again attempts these again.
        StepFailedError: a recording was stopped. Calling again continues with it.
    """
    settings = folder.read()
    with locked(folder.path):
        return _learn(folder, settings, recipe, report, track)


def _learn(
    folder: RLFolder, settings: RunSettings, recipe: Recipe, report: Report, track: Track
) -> dict[str, Any]:
    disable_progress_bar()  # transformers' bar for loading
    torch.manual_seed(settings.seed)
    run = _Run(folder, settings, recipe, track)
    begun = run.restore()
    folder.stopped.unlink(missing_ok=True)
    policy = Policy(lambda: str(run.version))
    with (
        ThreadPoolExecutor(1) as run.aside,  # left last: a recording that is going on has been ended by then
        serve_policy(run.loaded, run.model, policy) as endpoint,
        Recorder() as recorder,
    ):
        run.rollouts = Rollouts(endpoint, recorder, run.model, settings, recipe.rl)
        run.measure(report)  # the start, or what a stop after the checkpoint has prevented
        for step in range(begun + 1, settings.steps + 1):
            run.take(step, report)
        weights = run.learner.weights()
    set_generation(run.loaded.model.generation_config, recipe.generation)
    save_result(run.loaded.model, weights, run.loaded.tokenizer, folder.model)
    return folder.summary()


class _Run:
    """The state of a run."""

    def __init__(self, folder: RLFolder, settings: RunSettings, recipe: Recipe, track: Track) -> None:
        self.folder, self.settings, self.recipe, self.track = folder, settings, recipe, track
        self.step = 0
        self.version = 0
        """The step after which the engine got its weights."""
        self.rollouts: Rollouts
        self.aside: ThreadPoolExecutor
        self.ahead: Future[RolledOut] | None = None
        """The rollouts of the next step, if they have begun."""
        self.model = model_name(folder.path.name)
        self.algorithm = ALGORITHMS[settings.algorithm]
        # a server reads the copy of several processes from the disk: it needs no GPU
        device = "cpu" if several() and recipe.rl.engine.kind == "vllm" else None
        loaded = load_policy(folder.template, settings.start, recipe, device=device)
        if recipe.rl.constrain_calls and loaded.grammars is None:
            raise WrongUseError("rl.constrain_calls: the start's tokenizer cannot be constrained")
        self.loaded = with_engine(loaded, folder.path / "engine", recipe)
        trained = load_alone(settings.start, recipe) if several() else self.loaded.model
        self.learner, self.teacher = make_learner(trained, folder, settings, recipe)
        self.hints = Hints(self.loaded) if self.algorithm.teacher == "self" else None
        self.curriculum = Curriculum(settings.tasks, lambda task: family(task, task), settings.seed)
        self.watch = Watch(recipe.rl.guards)

    def restore(self) -> int:
        """Continue from the newest checkpoint, and return its step; 0 without one."""
        found = self.folder.last_checkpoint()
        self.step = self.folder.last_step
        self.folder.keep_steps(self.step)
        if found:
            state = torch.load(found / "state.pt", weights_only=False)
            self.learner.restore(state)
            self.curriculum.restore(state["curriculum"])
            self.watch.restore(state["watch"])
            self._answer_with_new_weights()
        return self.step

    def take(self, step: int, report: Report) -> None:
        """Roll out, learn, and store the step.

        Raises:
            CollapsedError: a guard stopped the run; the text names the last good checkpoint.
            InvalidEpisodesError: too many episodes are invalid. A resumed run attempts these again.
        """
        started = time.monotonic()
        try:
            attempts, rows, flat = self._rolled_out(step)
            rolled = time.monotonic()
            self.watch.check_attempts(attempts, flat)
            line = self._describe(attempts, flat)
            curriculum = self.curriculum.state()
            if self.recipe.rl.ahead and step < self.settings.steps:
                self.ahead = self.aside.submit(self._roll_out, step + 1)
            else:
                self.loaded.engine.forget()  # the update needs the memory
            if rows:
                line |= self._follow(rows, attempts)
            if rows and line.get("followed", True):
                line |= self._learn(step, rows, attempts)
        except (CollapsedError, InvalidEpisodesError) as error:
            last = self.folder.last_checkpoint()
            where = f"The last good checkpoint is {last}" if last else "There is no checkpoint"
            why = f"step {step}: {error}. {where}"
            self.folder.stop(step, why, again=isinstance(error, InvalidEpisodesError))
            raise type(error)(why) from None
        self.step = step
        if self.ahead is not None:
            wait([self.ahead])  # no attempt goes on with other weights
        if "loss" in line:
            self._answer_with_new_weights()
        seconds = {"rollout_seconds": rolled - started, "seconds": time.monotonic() - started}
        line = {"step": step, **line, **{name: round(value, 2) for name, value in seconds.items()}}
        self.folder.add(line)
        self.track(line)
        report(_shown(line, self.settings.steps))
        if step % self.recipe.rl.save_every == 0 or step == self.settings.steps:
            self._save(step, curriculum)
        self.measure(report)  # after saving: a stop while it measures loses no step

    def measure(self, report: Report) -> None:
        """Measure the policy on `dev`, if that is due after this step and was not done before."""
        step, settings = self.step, self.settings
        if not settings.dev or (step % settings.dev_every and step != settings.steps):
            return
        path = self.folder.step(step) / "dev.json"
        if path.is_file():
            return
        found = scores(self.rollouts.measure(path.parent, "dev", settings.dev))
        if found["partial"] is not None:  # without a valid episode, a resumed run goes on with the recording
            once(path, lambda: found)
        self.track({"step": step, "dev_partial": found["partial"], "dev_strict": found["strict"]})
        partial, strict = (
            "-" if found[name] is None else f"{found[name]:.3f}" for name in ("partial", "strict")
        )
        report(f"step {step}: dev partial {partial}, strict {strict}")

    def _rolled_out(self, step: int) -> RolledOut:
        """Return the rollouts of a step, which may have been made ahead."""
        ahead, self.ahead = self.ahead, None
        return self._roll_out(step) if ahead is None else ahead.result()

    def _roll_out(self, step: int) -> RolledOut:
        place, rl = self.folder.step(step), self.recipe.rl
        attempts: list[Attempt] = []
        rows: list[Weighted] = []
        groups = flat = 0
        wanted, tried = rl.groups, set[str]()
        for fill in range(1 + rl.refills):
            tasks = self._tasks(place, fill, wanted, tried) if wanted else []
            if not tasks:
                break
            tried.update(tasks)
            wanted = 0
            made = self.rollouts.attempts(place, f"attempts-{fill}", tasks, self._seed(step, fill))
            for group in _groups(made):
                rewards = [attempt.reward for attempt in group]
                groups += 1
                wanted += self.algorithm.is_flat(group)
                weighed = self.algorithm.weigh(group, below=rl.below, anchored=rl.kl > 0, imitate=rl.imitate)
                rows += weighed if self.hints is None else self.hints.add(group, weighed)
                self.curriculum.learned(group[0].task, [reward for reward in rewards if reward is not None])
            flat += wanted
            attempts += made
        if self.teacher is not None:
            self.teacher.check(self.rollouts, place, self._seed(step, 0), attempts)
        if self.settings.canaries:
            made = self.rollouts.attempts(place, "canaries", self.settings.canaries, self._seed(step, 99))
            self.watch.check_canaries(made)
        return attempts, rows, flat / max(1, groups)

    def _tasks(self, place: Path, fill: int, count: int, tried: Iterable[str]) -> list[str]:
        """Return the tasks of a recording; a resumed one has those that it began with.

        There are fewer than `count` if there are few tasks: none is tried twice in a step.
        """
        drawn = self.curriculum.draw(count, tried)  # also when it is known: the curriculum goes on from there
        found = once(place / f"tasks-{fill}.json", lambda: {"tasks": drawn})
        return [str(task) for task in found["tasks"]]

    def _seed(self, step: int, fill: int) -> int:
        return (self.settings.seed * 1_000_003 + step * 100 + fill) % 2**63  # what a database can store

    def _learn(self, step: int, rows: Sequence[Weighted], attempts: Sequence[Attempt]) -> dict[str, Any]:
        rl = self.recipe.rl
        rising = min(1.0, step / rl.warmup) if rl.warmup else 1.0
        rate = rising * (1 - rl.decay * step / self.settings.steps)
        try:
            figures = self.learner.learn(rows, surrogate=self.algorithm.surrogate, rate=rate)
        except FloatingPointError as error:
            raise CollapsedError(f"{error}, on episodes such as {attempts[0].episode}") from None
        self.watch.check_update(figures, attempts)
        if self.hints is not None and rl.distillation.teacher == "slow":
            self.learner.follow(rl.distillation.follow)
        return asdict(figures)

    def _follow(self, rows: Sequence[Weighted], attempts: Sequence[Attempt]) -> dict[str, Any]:
        """Compare the policy with its teacher, if it has one, and return whether it may follow."""
        if self.algorithm.teacher is None:
            return {}
        gap = self.learner.gap(rows)
        may = self.hints is None or self.watch.check_gap(gap.solved, attempts)
        return {"gap_solved": gap.solved, "gap_failed": gap.failed, "taught_rows": len(rows), "followed": may}

    def _describe(self, attempts: Sequence[Attempt], flat: float) -> dict[str, Any]:
        valid = [attempt for attempt in attempts if attempt.reward is not None]
        return {
            "episodes": len(attempts),
            "invalid": len(attempts) - len(valid),
            "reward": fmean([attempt.reward or 0.0 for attempt in valid]) if valid else None,
            "strict": fmean([attempt.strict for attempt in valid]) if valid else None,
            "flat": flat,
            "cut": sum(attempt.cut for attempt in attempts),
            "calls": sum(attempt.calls for attempt in attempts) / max(1, len(attempts)),
            # an agent that rewrites its history, or a template that does, makes a further row
            "forks": sum(max(0, len(attempt.rows) - 1) for attempt in attempts),
            "families": self.curriculum.rewards.copy(),
        }

    def _save(self, step: int, curriculum: dict[str, Any]) -> None:
        made = self.folder.new_checkpoint(step)
        state = self.learner.state(teacher=self.hints is not None)
        watched = {"curriculum": curriculum, "watch": self.watch.state()}
        torch.save({**state, **watched}, made / "state.pt")
        self.folder.keep(made, step)

    def _answer_with_new_weights(self) -> None:
        if several():  # the engine has a copy
            self.loaded.model.load_state_dict(self.learner.weights())
        self.loaded.engine.weights_changed()
        self.version = self.step


def _groups(attempts: Sequence[Attempt]) -> list[list[Attempt]]:
    found: dict[str, list[Attempt]] = {}
    for attempt in attempts:
        found.setdefault(attempt.task, []).append(attempt)
    return list(found.values())


def _shown(line: dict[str, Any], steps: int) -> str:
    parts = [f"[{line['step']}/{steps}] {line['episodes']} episodes"]
    if line["reward"] is not None:
        parts.append(f"reward {line['reward']:.3f}, strict {line['strict']:.3f}")
    parts.append(f"flat {line['flat']:.0%}")
    if line.get("gap_solved") is not None:
        parts.append(f"teacher {line['gap_solved']:+.3f} nats on solved attempts")
    if line.get("followed") is False:
        parts.append("nothing learned: no solved attempt has another one to measure the teacher by")
    if "loss" in line:
        parts.append(
            f"{line['tokens']:,} tokens, entropy {line['entropy']:.3f}, KL {line['kl']:.4f}, mismatch "
            f"{line['mismatch']:.1e}"
        )
    parts.append(f"{line['seconds']:.0f} s ({line['rollout_seconds']:.0f} s of it rollouts)")
    return ", ".join(parts)
