"""Generations: record, propose, check, measure, and keep what is better."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from mcp_bench.bridge.experience.editing import write_texts
from mcp_bench.bridge.harness.folder import Harness, texts_of
from mcp_bench.bridge.run.events import SIGNAL
from mcp_bench.servers.errors import BenchError
from mcp_bench.trainer.folders import Outcome, read_step
from mcp_bench.trainer.improve.folder import Arm, ImproveFolder, cells
from mcp_bench.trainer.improve.gate import FEWEST_TASKS, Verdict, confirm, judge, too_many_invalid
from mcp_bench.trainer.improve.measured import Graded, comparable
from mcp_bench.trainer.improve.on_test import on_test
from mcp_bench.trainer.improve.policy import Past, choose
from mcp_bench.trainer.improve.proposals import propose, refusals
from mcp_bench.trainer.improve.recordings import BudgetSpentError, Recordings
from mcp_bench.trainer.improve.settings import ImproveSettings
from mcp_bench.trainer.improve.training import learn, train
from mcp_bench.trainer.trial.recordings import RunStoppedError

Report = Callable[[str], object]
ROUNDS = 2
"""Recordings of each side on the gate's tasks, at most: the second one where the first leaves it unclear."""


def run_improve(folder: ImproveFolder, settings: ImproveSettings, report: Report) -> Outcome:
    """Run the remaining phases and return the history: generations, the best arm, and scores on test.

    Raises:
        StepFailedError: a command failed or was stopped. Calling again continues with it.
        BenchError: the feedback agent could not work. Likewise.
    """
    history: Outcome = {"generations": [], "best": asdict(Arm()), "stopped": "", "test": {}}
    work = _Generations(folder, settings, report)
    if before := folder.known():
        folder.store_history({**before, "stopped": ""})
    try:
        history["stopped"] = _generations(work, history, before.get("generations", ()))
    except BudgetSpentError as error:
        history["stopped"] = f"the budget is spent: {error}"
    report(f"Stopping: {history['stopped']}")
    _store_best(folder, Arm(**history["best"]))
    if settings.test:
        _test(work, history)
        found = on_test(folder, history)
        history["on_test"] = None if found is None else found.document()
    history["spent"] = work.recordings.spent()
    folder.store_history(history)
    return history


def _generations(work: _Generations, history: Outcome, known: Sequence[Outcome] = ()) -> str:
    """Run generations until something ends them. Return what.

    Those in `known` are in the stored history, which has later ones, too, and the best of all: it stays.
    """
    settings, since = work.settings, 0
    past: list[Past] = []
    for number in range(1, settings.generations + 1):
        best = Arm(**history["best"])
        done = work.generation(number, best, past, history["generations"])
        history["generations"].append(done)
        work.report(f"generation {number}: {done['action']}: {done['verdict']} ({done['why']})")
        if done["promoted"]:
            history["best"] = done["arm"]
        if done not in known:
            if done["promoted"]:
                _store_best(work.folder, Arm(**done["arm"]))
            history["spent"] = work.recordings.spent()
            work.folder.store_history(history)
        if done["action"] == "stop":
            return str(done["why"])
        if done["verdict"] == "refused" and (done["action"] == "harness" or done.get("tainted")):
            continue  # it was not measured, so nothing is known about what it would bring
        # an agent that left the harness as it is tried to improve it
        tried = "harness" if done["action"] == "none" else done["action"]
        past.append(Past(tried, done["promoted"], done["difference"], done["error"]))
        since = 0 if done["promoted"] else since + 1
        if since >= settings.patience:
            return f"no promotion in {since} generations"
    return f"{settings.generations} generations are done"


def _store_best(folder: ImproveFolder, arm: Arm) -> None:
    harness = folder.harness(arm.harness)
    if harness.is_dir():
        write_texts(folder.path / "best", texts_of(harness))


def _test(work: _Generations, history: Outcome) -> None:
    """Measure the first and the last harness with the first and the last weights on test."""
    for arm in cells(history):
        try:
            history["test"][str(arm)] = work.recorded(arm, "test")
        except BudgetSpentError as error:
            work.report(f"Not measured on test: {arm}: the budget is spent: {error}")


class _Generations:
    def __init__(self, folder: ImproveFolder, settings: ImproveSettings, report: Report) -> None:
        self.folder, self.settings, self.report = folder, settings, report
        self.recordings = Recordings(folder, settings)

    def generation(self, number: int, best: Arm, past: list[Past], earlier: list[Outcome]) -> Outcome:
        """Run a generation, or what is left of it, and return what became of it."""
        settings = self.settings
        edits = sum(one["action"] in ("harness", "none") for one in earlier)
        left = settings.kinds[1:] if 0 < settings.candidates <= edits else settings.kinds
        choice = choose(settings.policy, past, kinds=left, seed=settings.seed)
        runs: list[str] = []
        if choice == "train" or (choice in ("any", "harness") and not settings.candidates):
            if not self.folder.has(number, "proposal"):  # it was made from the recording as it is
                self.report(f"generation {number}: recording {best} on train")
                self.recorded(best, "train")
            arms = dict.fromkeys([Arm(), *(Arm(**one["arm"]) for one in earlier if one["promoted"])])
            runs = [self.recordings.of(arm, "train")["run"] for arm in arms]
        given = {
            "choice": choice,
            "parent": self.folder.harness(best.harness),
            "runs": runs,
            "edits": edits,
            "earlier": [f"generation {one['generation']}: {one['for_agents']}" for one in earlier],
        }
        proposed = self.folder.phase(number, "proposal", lambda: self._propose(number, given))
        decided = self.folder.phase(
            number, "decision", lambda: self._decide(number, best, proposed, runs, earlier)
        )
        return {"generation": number, "parent": asdict(best), **proposed, **decided}

    def _propose(self, number: int, given: dict[str, Any]) -> Outcome:
        return propose(self.folder, self.settings, number, **given)

    def _decide(
        self, number: int, best: Arm, proposed: Outcome, runs: list[str], earlier: list[Outcome]
    ) -> Outcome:
        """Check and measure a proposal."""
        action = proposed["action"]
        if action in ("stop", "none"):
            why = proposed["reason"] if action == "stop" else "the harness was left as it is"
            return _decision("nothing to measure", why, f"{action}: {proposed['reason'][:200]}")
        if tainted := proposed.get("tainted"):
            why = f"the feedback agent read what is not for it: see mcp-bench show {tainted}"
            return _decision("refused", why, f"{action}: refused: its author read what is not for it")
        arm = Arm(number, best.weights) if action == "harness" else Arm(best.harness, number)
        if action == "harness":
            found = self.folder.phase(number, "check", lambda: self._check(number, earlier))
            if found["refused"]:
                said = "; ".join(found["for_agents"][:10])
                return _decision(
                    "refused", "; ".join(found["refused"][:10]), f"harness edit: refused: {said}"
                )
        else:
            if action == "train" and (same := self._trained_in(proposed, runs, earlier)):
                why = f"generation {same} trained on the same episodes"
                return _decision("refused", why, f"training: {why}")
            trained = self.folder.phase(number, "train", lambda: self._train(number, best, proposed, runs))
            if trained["model"] is None:
                return _decision("refused", trained["why"], f"training: {trained['why']}")
        verdict = self._gate(number, best, arm)
        if verdict.better:
            held = self._confirm(best, arm)
            if held.better:
                why = f"{verdict.why}; on confirm {held.why}"
                return _decision("promoted", why, _agents(proposed, "promoted"), verdict, arm)
            why = f"passed the gate ({verdict.why}), but on confirm {held.why}"
            return _decision(
                "rolled back", why, _agents(proposed, "not promoted: no gain on other tasks"), verdict
            )
        broken = ": it breaks tasks that were solved" if verdict.breaks_too_many else ": no clear gain"
        return _decision("not promoted", verdict.why, _agents(proposed, f"not promoted{broken}"), verdict)

    def _check(self, number: int, earlier: list[Outcome]) -> Outcome:
        self.report(f"generation {number}: searching its texts for values of held-out tasks")
        start = texts_of(self.folder.harness(0))
        tried = {Harness("h0", start).version: 0} if start else {}
        for one in earlier:
            if one.get("harness"):
                tried.setdefault(one["harness"].partition("@")[2], one["generation"])
        refused, for_agents = refusals(self.folder, self.settings, number, tried)
        return {"refused": refused, "for_agents": for_agents}

    def _trained_in(self, proposed: Outcome, runs: list[str], earlier: list[Outcome]) -> int | None:
        """Return the generation that trained on the same episodes, if any: it would be the same again."""
        for one in earlier:
            trained = read_step(self.folder.generation(one["generation"]) / "train.json") or {}
            chosen = (one.get("min_partial"), one.get("best"), trained.get("runs"))
            if chosen == (proposed["min_partial"], proposed["best"], runs):
                return int(one["generation"])
        return None

    def _train(self, number: int, best: Arm, proposed: Outcome, runs: list[str]) -> Outcome:
        self.recordings.check_budget(0)
        self.report(f"generation {number}: training")
        if proposed["action"] == "rl":
            return learn(self.folder, self.settings, number, best)
        return train(self.folder, self.settings, number, proposed, runs)

    def recorded(self, arm: Arm, what: str) -> str:
        """Return a run of an arm on `train` or `test`. Where many episodes say nothing, it goes on once.

        Raises:
            BudgetSpentError: the budget does not suffice for it.
            StepFailedError: it was stopped.
        """
        _, doubt = self._scores(arm, what, 1)
        if doubt:
            self.report(f"{doubt}: attempting invalid episodes again")
            self.recordings.attempt_invalid(arm, what)
            _, doubt = self._scores(arm, what, 1)
        if doubt:
            self.report(f"Doubtful: {doubt}")
        return str(self.recordings.of(arm, what)["run"])

    def _gate(self, number: int, best: Arm, arm: Arm) -> Verdict:
        """Compare two arms on the gate's tasks; again with more attempts if that is unclear."""
        verdict = Verdict("unclear", "")
        for rounds in range(1, ROUNDS + 1):
            self.report(f"generation {number}: measuring {arm} against {best} on dev, {rounds} of {ROUNDS}")
            verdict = self._compare(best, arm, "gate", rounds, judge)
            if verdict.outcome != "unclear":
                break
        return verdict

    def _confirm(self, best: Arm, arm: Arm) -> Verdict:
        self.report(f"measuring {arm} against {best} on confirm")
        return self._compare(best, arm, "confirm", 1, confirm)

    def _compare(self, best: Arm, arm: Arm, what: str, rounds: int, by: Callable[..., Verdict]) -> Verdict:
        before, doubt = self._scores(best, what, rounds)
        if not doubt and len(before) < FEWEST_TASKS:
            doubt = f"only {len(before)} tasks of {best} were graded, and {FEWEST_TASKS} are needed"
        if doubt:  # this says nothing about the proposal
            self.recordings.again(best, what, rounds)
            raise BenchError(f"{doubt}: mend that, and start again")
        after, doubt = self._scores(arm, what, rounds)
        if doubt:  # an outage looks the same
            self.report(f"{doubt}: attempting invalid episodes again")
            self.recordings.retry(arm, what, rounds)
            after, doubt = self._scores(arm, what, rounds)
        if doubt and not self.recordings.works(best):
            self.recordings.retry(arm, what, rounds)
            raise BenchError(f"{doubt}. {best} fails now, too: mend that, and start again")
        if doubt:
            return Verdict("not better", doubt)
        (before_values, after_values), measure = comparable([before, after])
        return by(before_values, after_values, measure)

    def _scores(self, arm: Arm, what: str, rounds: int) -> tuple[dict[str, list[Graded]], str]:
        """Return the graded attempts of an arm, and why they cannot be compared, or an empty text."""
        try:
            found, invalid, total = self.recordings.scores(arm, what, rounds)
        except RunStoppedError as error:  # so many failures in a row that more are no use
            if error.stopped_by == SIGNAL:
                raise
            return {}, f"the recording of {arm} was stopped: {error.stopped_by}"
        if too_many_invalid(invalid, total):
            of = f"{invalid} of {total} episodes of {arm}"
            return found, f"{of} are invalid or tainted, or failed by its word"
        return found, ""


def _decision(
    verdict: str, why: str, for_agents: str, measured: Verdict | None = None, arm: Arm | None = None
) -> Outcome:
    """Return the result of a generation. `arm` is the promoted one."""
    found = measured or Verdict("not better", "")
    return {
        "verdict": verdict,
        "promoted": arm is not None,
        "arm": None if arm is None else asdict(arm),
        "why": why,
        "for_agents": for_agents,
        "difference": found.difference,
        "interval": found.interval,
        "error": found.error,
        "tasks": found.tasks,
        "fixed": len(found.fixed),
        "broken": len(found.broken),
        "measure": found.measure,
    }


def _agents(proposed: Outcome, became: str) -> str:
    """Return what later feedback agents read. It has no scores: many of them would add up to dev."""
    kind = {"train": "training", "rl": "learning from reward"}.get(proposed["action"], "harness edit")
    return f"{kind} ({proposed['reason'][:200]}): {became}"
