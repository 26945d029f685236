"""Recordings of an improvement: an arm on some tasks, once, within the budget."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from mcp_bench.bridge.run.events import SIGNAL
from mcp_bench.recorder.errors import StorageError
from mcp_bench.recorder.paths import runs_dir
from mcp_bench.recorder.runs.annotations import known_annotations
from mcp_bench.recorder.runs.find import run_paths
from mcp_bench.recorder.runs.reader import RunReader, StoredEpisode
from mcp_bench.recorder.scores.totals import finished
from mcp_bench.servers.errors import BenchError
from mcp_bench.trainer.folders import Outcome, once, store_step
from mcp_bench.trainer.improve.folder import Arm, ImproveFolder
from mcp_bench.trainer.improve.measured import Graded
from mcp_bench.trainer.improve.settings import ImproveSettings
from mcp_bench.trainer.recipe import load_recipe
from mcp_bench.trainer.sft.run_folder import RunFolder
from mcp_bench.trainer.trial.commands import StepFailedError, run
from mcp_bench.trainer.trial.measuring import Endpoint, model_name, served, tasks
from mcp_bench.trainer.trial.recordings import RunStoppedError, begun_since, record
from mcp_bench.trainer.trial.scores import episodes_of

SEEDS = {"train": 0, "gate": 100_000, "confirm": 200_000, "test": 300_000, "probe": 400_000}
"""Added to the seed, so that no world is met twice. Both sides of a comparison have the same ones."""
PROBE_TASKS = 3
MAX_COST = "--max-cost"


class BudgetSpentError(BenchError):
    """The next recording would exceed the budget."""


@dataclass(frozen=True)
class Left:
    """What is left of a budget; None is no limit."""

    usd: float | None
    seconds: float | None


class Recordings:
    """Records arms on tasks. Each recording is made once and stored."""

    def __init__(self, folder: ImproveFolder, settings: ImproveSettings) -> None:
        self._folder = folder
        self._settings = settings

    def of(self, arm: Arm, what: str, number: int = 0) -> Outcome:
        """Return a recording of an arm: on `train`, `probe`, or with repeats `gate`, `confirm` or `test`.

        Args:
            number: which one of several with the same tasks and other seeds.

        Raises:
            BudgetSpentError: the budget does not suffice for it.
            StepFailedError: it was stopped. Calling again continues with it.
        """
        path = self._path(arm, what, number)
        return once(path, lambda: self._record(arm, what, number, path.with_suffix(".begun")))

    def _path(self, arm: Arm, what: str, number: int) -> Path:
        return self._folder.arm(arm) / f"{what}-{number}.json"

    def retry(self, arm: Arm, what: str, numbers: int) -> None:
        """Let the next call of `of` go on with these recordings: it attempts invalid episodes again."""
        for number in range(numbers):
            self._path(arm, what, number).unlink(missing_ok=True)  # it is not there if it was stopped

    def attempt_invalid(self, arm: Arm, what: str) -> None:
        """Attempt invalid episodes of a recording again, once. It stays as it is if the budget is spent.

        Its result says so: a later generation, or the same one after an interruption, does not do it again.
        """
        path = self._path(arm, what, 0)
        if self.of(arm, what).get("attempted_again"):
            return
        with suppress(BudgetSpentError):
            found = self._record(arm, what, 0, path.with_suffix(".begun"))
            store_step(path, {**found, "attempted_again": True})

    def again(self, arm: Arm, what: str, numbers: int) -> None:
        """Let the next call of `of` attempt invalid episodes again, and all where others are doubtful.

        A tainted episode has a grade, and so has one whose agent reported a failure.
        """
        for number in range(numbers):
            path = self._path(arm, what, number)
            if not path.exists():
                continue
            episodes = episodes_of(self.of(arm, what, number)["run"])
            if any(one.claim is not None or one.taint == "tainted" for one in episodes):
                _begin_again(path)
        self.retry(arm, what, numbers)

    def works(self, arm: Arm) -> bool:
        """Return whether an arm can be recorded now: most attempts at a few tasks are valid."""
        path = self._path(arm, "probe", 0)
        path.unlink(missing_ok=True)
        _begin_again(path)
        try:
            _, doubtful, total = self.scores(arm, "probe", 1)
        except RunStoppedError as error:
            if error.stopped_by == SIGNAL:
                raise
            return False
        return doubtful < total / 2

    def scores(self, arm: Arm, what: str, numbers: int) -> tuple[dict[str, list[Graded]], int, int]:
        """Return the graded attempts by task, and the numbers of doubtful and of all episodes.

        Doubtful is one that is invalid or tainted, or whose agent reported a failure that it may not be to
        blame for. The last has a grade that counts: else an agent could choose its tasks.
        """
        found: dict[str, list[Graded]] = {}
        doubtful = total = 0
        for number in range(numbers):
            for one in filter(finished, episodes_of(self.of(arm, what, number)["run"])):
                total += 1
                if one.invalid is not None or one.partial is None or one.taint == "tainted":
                    doubtful += 1
                    continue
                doubtful += one.claim is not None
                found.setdefault(one.task, []).append(Graded(one.partial, bool(one.strict), one.score))
        return found, doubtful, total

    def accepts(self, arm: Arm) -> bool:
        """Return whether the agent starts with an arm's harness, by dry runs.

        Raises:
            BenchError: it does not start without the harness either, so that says nothing.
        """
        settings, harness = self._settings, str(self._folder.harness(arm.harness))
        port = self._folder.arm(arm) / "dry.port"
        port.unlink(missing_ok=True)  # no run has to be resumed with it
        with self._agent(arm, port) as agent:
            task = tasks(settings.benchmark, settings.train[:1], 1)
            options = [*self._of_agent(), *settings.record_options]
            command = ["record", *agent, *task, *options, "--dry-run", "--json"]
            for more in (["--harness", harness], []):
                try:
                    run([*command, *more])
                    return bool(more)
                except StepFailedError:
                    continue
        raise BenchError("the agent cannot be recorded, with or without the proposal: see above")

    def spent(self, without: Collection[str] = ()) -> dict[str, float]:
        """Return what was used so far: episodes, tokens, usd and seconds.

        Recordings that were not finished count, too: those that a budget ended, and sessions of the feedback
        agent that were cut off and began again.

        Args:
            without: runs that are left out.
        """
        total, known = self._folder.spent(without)
        for path in self.runs():
            if path.name in known or path.name in without:
                continue
            with suppress(StorageError):  # killed before it had a database
                for name, used in spent_by(attempts_of(path)).items():
                    total[name] += used
        return total

    def runs(self) -> Iterator[Path]:
        """Yield the recordings of this improvement that are there, finished or not."""
        ours = f"{self._folder.tag_of_all}/"
        for path in run_paths():
            if any(tag.startswith(ours) for tag in known_annotations(path).tags):
                yield path

    def check_budget(self, episodes: int, resumed: Collection[str] = ()) -> Left:
        """Return what is left for one more recording.

        Args:
            episodes: that it will attempt.
            resumed: its run, if it has begun before. The dollars that it gets are for all of it, with what it
                has cost before.

        Raises:
            BudgetSpentError: nothing is left of something, or not enough for so many episodes.
        """
        budget, spent = self._settings.budget, self.spent()
        others = self.spent(without=resumed) if resumed else spent
        if budget.episodes is not None and episodes and spent["episodes"] + episodes > budget.episodes:
            raise BudgetSpentError(
                f"{spent['episodes']} of {budget.episodes} episodes are used, and {episodes} would be next"
            )
        hours = spent["seconds"] / 3600
        for name, most, used in (
            ("tokens", budget.tokens, spent["tokens"]),
            ("US dollars", budget.usd, spent["usd"]),
            ("hours", budget.hours, hours),
        ):
            if most is not None and used >= most:
                raise BudgetSpentError(f"{used:.4g} of {most:.4g} {name} are used")
        return Left(
            None if budget.usd is None else budget.usd - others["usd"],
            None if budget.hours is None else 3600 * (budget.hours - hours),
        )

    def _record(self, arm: Arm, what: str, number: int, marker: Path) -> Outcome:
        settings = self._settings
        ids = {
            "train": settings.train,
            "gate": settings.dev,
            "confirm": settings.confirm,
            "test": settings.test,
            "probe": settings.dev[:PROBE_TASKS],
        }
        repeat = 1 if what in ("train", "probe") else settings.repeats
        tag = self._folder.tag(arm, f"{what}-{number}")
        resumed = [one for one in begun_since(marker) if tag in known_annotations(runs_dir() / one).tags]
        left = self.check_budget(_to_attempt(resumed, len(ids[what]) * repeat), resumed).usd
        more = [
            *("--repeat", str(repeat), "--seed", str(settings.seed + SEEDS[what] + number)),
            *("--run-tag", tag),
            # a model of one's own costs nothing, and `record` would refuse the option for it
            *([MAX_COST, f"{left:.6f}"] if left is not None and not settings.trainable else []),
            *self.options(arm),
        ]
        with self._agent(arm, marker.with_suffix(".port")) as agent:
            try:
                asked = [*agent, *tasks(settings.benchmark, ids[what], settings.jobs), *more]
                recorded = record(marker, asked, check=agent.check, tagged=True)
            except RunStoppedError as error:
                if error.stopped_by.startswith(MAX_COST):
                    raise BudgetSpentError(f"all of {settings.budget.usd:.4g} US dollars are used") from error
                raise
        used = spent_by(attempts_of(runs_dir() / recorded))
        return {"run": recorded, "arm": str(arm), "what": what, "spent": used}

    @contextmanager
    def _agent(self, arm: Arm, port_file: Path) -> Iterator[Endpoint]:
        """Yield the arguments that select the agent, and serve its model if that is trained."""
        settings = self._settings
        if not settings.trainable:
            named = agent_arguments(settings.agent, settings.model, settings.base_url)
            yield Endpoint(named, lambda: None)  # nothing is served
            return
        with served(self.weights(arm), self._name(arm), port_file, settings) as endpoint:
            yield endpoint

    def options(self, arm: Arm) -> list[str]:
        """Return what an arm's recordings are asked for besides its model and tasks."""
        harness = self._folder.harness(arm.harness)
        return [
            *(["--harness", str(harness)] if harness.is_dir() else []),
            *self._of_agent(),
            *self._settings.record_options,
        ]

    def _of_agent(self) -> list[str]:
        return [word for one in self._settings.agent_options for word in ("--agent-option", one)]

    def weights(self, arm: Arm) -> Path:
        """Return the folder of an arm's weights."""
        if arm.weights:
            return RunFolder(self._folder.generation(arm.weights) / "train").model
        base = load_recipe(str(self._folder.recipe))[1].model.base
        assert base is not None  # noqa: S101 - `begin` asked for it
        return Path(base)

    def _name(self, arm: Arm) -> str:
        return model_name(f"{self._folder.path.name}-w{arm.weights}")


def _begin_again(path: Path) -> None:
    """Forget the run of a recording, and the port of its model: the next one is another run."""
    for suffix in (".begun", ".port"):
        path.with_suffix(suffix).unlink(missing_ok=True)


def _to_attempt(resumed: Sequence[str], planned: int) -> int:
    """Return how many of its planned episodes a recording will attempt: those that its run has not done."""
    if len(resumed) == 1:
        with suppress(StorageError), RunReader(runs_dir() / resumed[0]) as reader:
            if (found := reader.summary()) is not None and found.planned:
                return found.planned - found.done
    return planned


def agent_arguments(agent: str, model: str | None, base_url: str | None) -> list[str]:
    """Return the arguments of `record` that select an agent."""
    return [
        *("--agent", agent),
        *(["--model", model] if model else []),
        *(["--base-url", base_url] if base_url else []),
    ]


def attempts_of(path: Path) -> list[StoredEpisode]:
    """Return all attempts of a run, also those that another one has replaced."""
    with RunReader(path) as reader:
        return [reader.episode(one) for one in reader.episode_ids()]


def spent_by(attempts: Sequence[StoredEpisode]) -> dict[str, float]:
    """Return what attempts used, as their agents report it, and the time in which one was running."""
    spent: dict[str, float] = {"episodes": len(attempts), "tokens": 0, "usd": 0.0, "seconds": 0.0}
    for one in attempts:
        usage = one.usage or {}
        spent["tokens"] += (usage.get("input_tokens") or 0) + (usage.get("output_tokens") or 0)
        spent["usd"] += (usage.get("cost_usd") or 0) + (one.roles_usd or 0)
    until = 0
    for began, ended in sorted(
        (one.started_us, one.ended_us) for one in attempts if one.ended_us is not None
    ):
        spent["seconds"] += max(0, ended - max(began, until)) / 1e6
        until = max(until, ended)
    return spent
