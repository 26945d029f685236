"""Measure candidates side by side, by the kind of the experiment.

| kind | a candidate's functions | an item, and its value |
|---|---|---|
| `call`, `sql` | any | a fresh input: processor seconds; the answer must be the baseline's |
| `fit_predict` | `solve(*training data, new rows) -> predictions` | a row: its loss; labels stay here |
| `codec` | `compress(bytes)`, `decompress(bytes)` | a file: bits per byte; another process decompresses |
| `lockstep` | `fit(text, seconds, seed)`, `start(n)`, `step(bytes)` | a stream: bits per byte |
| `text` | none: it is a prompt, which a model answers | a case: the loss of the answer |
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

from mcp_bench.servers.errors import BenchError
from mcp_bench.servers.improve import estimate
from mcp_bench.servers.improve.candidate import Candidate, CrashError
from mcp_bench.servers.improve.estimate import BASELINE
from mcp_bench.servers.improve.task_file import ImproveTask
from mcp_bench.servers.progress import report_progress

CLOCKED = ("call", "sql")
PARTS = ("search", "grade")
MOST_LOADING, SPARE_SECONDS = 3.0, 0.5
"""Loading and the answer that warms up are not timed. They may use this many times what the baseline uses,
and some seconds more."""
FLOATS = (np.float32, np.float64)
MOST_NUMBERS = 1 << 22
"""Of an array that becomes a list, which takes many times the memory, and has not the expected shape."""
SMOOTHING = 1e-7
"""Added to each probability, so that a zero costs 23 bits and not everything."""


@dataclass
class Measured:
    """The values of each candidate, item by item, and why some have none."""

    values: dict[str, list[float]]
    crashes: dict[str, CrashError] = field(default_factory=dict)
    clock: str = ""
    """What times were read from, where processes were timed: see `Candidate.clock`."""


async def measure(task: ImproveTask, candidates: Mapping[str, Candidate], rng: Random, part: str) -> Measured:
    """Measure candidates on the same items.

    Args:
        candidates: by name; one of them is the `baseline`.
        rng: what items are drawn from.
        part: `search`, or `grade` for held-out data.

    Raises:
        BenchError: the baseline or the reference failed, or the scorer: that is no candidate's fault.
    """
    kind, place = task.definition.experiment.kind, task.folder / "scorer.py"
    found = Measured({name: [] for name in candidates})
    try:
        if kind in CLOCKED:
            await _clocks(task, candidates, rng, part, found)
        else:
            await MEASURES[kind](task, candidates, rng, part, found)
    except _BaselineFailed as failed:
        *_, last = ["", *str(failed.error).splitlines()]
        raise BenchError(
            f"{task.definition.name}: the {failed.name} failed ({last}), so "
            f"nothing can be compared: {failed.error}"
        ) from failed
    except (BenchError, CrashError):
        raise
    except (Exception, SystemExit) as error:
        raise BenchError(f"{place} failed: {type(error).__name__}: {error}") from error
    for name in found.crashes:
        found.values.pop(name, None)
    if not all(found.values.values()):
        raise BenchError(f"{place} gave no items for {part!r}, so nothing can be compared")
    return found


class _BaselineFailed(Exception):  # noqa: N818 - it does not leave this module
    def __init__(self, name: str, error: CrashError) -> None:
        super().__init__(name)
        self.name, self.error = name, error


async def _clocks(
    task: ImproveTask, candidates: Mapping[str, Candidate], rng: Random, part: str, found: Measured
) -> None:
    """Give each fresh input to all candidates until it is enough.

    Each order is followed by its reverse (ABBA), and then another candidate is first: who is always between
    two others may gain by it. Each item has processes of its own: how fast the same program is differs by a
    few percent from one process to the next, by where its memory lies.
    """
    scorer, settings, metric = task.scorer, task.definition.settings, task.definition.metric
    data = scorer.data(rng, part, settings) if hasattr(scorer, "data") else {}
    for name, candidate in candidates.items():
        await _tried(found, name, candidate.begin(data))
        await _alone(task, candidate)
    found.clock = candidates[BASELINE].clock
    (least, most), whole = metric.pairs, task.definition.experiment.whole
    for number in range(most):
        # the first of two warms up
        questions = [_question(task, rng, part) for _ in range(1 if whole else 2)]
        names = [name for name in candidates if name not in found.crashes]
        timed = dict[str, list[tuple[Any, float]]]()
        first = number // 2 % len(names)
        order = names[first:] + names[:first]
        for name in order if number % 2 else reversed(order):
            answers = await _tried(found, name, _timed(task, candidates[name], questions))
            if answers is not None:
                timed[name] = answers
        for name, answers in timed.items():
            if why := _wrong(task, candidates, name, questions, timed[BASELINE], answers):
                _crashed(found, name, why)
            else:
                found.values[name].append(answers[-1][1])
        await report_progress(number + 1, most, "inputs, or fewer if they say enough")
        others = [name for name in candidates if name != BASELINE and name not in found.crashes]
        if not others or (number + 1 >= least and all(_settled(task, found, name) for name in others)):
            return


Question = tuple[str, list[Any], Any]
"""A function, its arguments, and what only the scorer's `check` knows."""


def _question(task: ImproveTask, rng: Random, part: str) -> Question:
    drawn = task.scorer.question(rng, part, task.definition.settings)
    return drawn if isinstance(drawn, tuple) else (task.definition.experiment.function, drawn, None)


async def _timed(
    task: ImproveTask, candidate: Candidate, questions: list[Question]
) -> list[tuple[Any, float]]:
    """Start a process and ask it; return answers and seconds."""
    await candidate.start()
    answers = [await candidate.call(function, arguments) for function, arguments, _ in questions]
    if task.definition.experiment.whole:
        answers = [(answer, seconds + candidate.load_seconds) for answer, seconds in answers]
    await _alone(task, candidate)
    return answers


async def _alone(task: ImproveTask, candidate: Candidate) -> None:
    """End what could slow others down by the wall's clock, or work for the next process, uncounted."""
    experiment = task.definition.experiment
    if experiment.gpu or experiment.processes:
        await candidate.halt()


def _wrong(
    task: ImproveTask,
    candidates: Mapping[str, Candidate],
    name: str,
    questions: list[Question],
    expected: list[tuple[Any, float]],
    answers: list[tuple[Any, float]],
) -> CrashError | None:
    """Return what is wrong with a candidate's answers, or with the time that it took until it was timed."""
    loading = candidates[name].load_seconds + answers[0][1]
    most = candidates[BASELINE].load_seconds + expected[0][1]
    if not task.definition.experiment.whole and loading > MOST_LOADING * most + SPARE_SECONDS:
        return CrashError(
            "over_budget",
            f"loading and warming up took {loading:.2f} s of processors, the baseline's {most:.2f}",
        )

    def compared(hidden: Any, expected: Any, answer: Any) -> str:
        return difference(expected, answer, task.definition.tolerance)

    check = getattr(task.scorer, "check", compared)
    for (_, _, hidden), (right, _), (answer, _) in zip(questions, expected, answers, strict=True):
        if why := judged(check, hidden, right, answer):
            return CrashError("wrong_answer", why)
    return None


def _settled(task: ImproveTask, found: Measured, name: str) -> bool:
    metric = task.definition.metric
    return estimate.gain(metric, found.values, name, clock=True).half_width <= metric.stop_at


async def _fit_predict(
    task: ImproveTask, candidates: Mapping[str, Candidate], rng: Random, part: str, found: Measured
) -> None:
    arguments, labels = task.scorer.data(rng, part, task.definition.settings)

    async def one(candidate: Candidate) -> list[float]:
        await candidate.begin()
        predictions, _ = await candidate.call(task.definition.experiment.function, arguments)
        return losses(labels, predictions, task.scorer.loss)

    await _each(candidates, found, one)


def losses(labels: list[Any], predictions: Any, loss: Callable[[Any, Any], float]) -> list[float]:
    """Return the loss of each prediction.

    Raises:
        CrashError: there is not one usable prediction for each label.
    """
    array = isinstance(predictions, np.ndarray) and predictions.ndim > 0
    if not (array or isinstance(predictions, list)) or len(predictions) != len(labels):
        raise CrashError("wrong_answer", f"it must return a list of {len(labels)} predictions")
    found = []
    for row, label in enumerate(labels):
        try:  # row by row: a list of all would take many times the memory
            prediction = predictions[row].tolist() if array else predictions[row]
        except Exception as error:  # such as characters beyond Unicode in an array of text
            raise CrashError("wrong_answer", f"the predictions cannot be read: {error}") from error
        try:
            one = float(loss(label, prediction))
        except Exception as error:
            raise CrashError("wrong_answer", f"a prediction is {_shown(prediction)}: {error}") from error
        if not math.isfinite(one):
            raise CrashError("numeric", f"the loss of the prediction {_shown(prediction)} is {one}")
        found.append(one)
    return found


async def _text(
    task: ImproveTask, candidates: Mapping[str, Candidate], rng: Random, part: str, found: Measured
) -> None:
    cases = task.scorer.cases(rng, part, task.definition.settings)

    async def one(candidate: Candidate) -> list[float]:
        said = await candidate.replies([given for given, _ in cases])
        return losses([hidden for _, hidden in cases], said, task.scorer.loss)

    await _each(candidates, found, one)


async def _codec(
    task: ImproveTask, candidates: Mapping[str, Candidate], rng: Random, part: str, found: Measured
) -> None:
    files = task.scorer.files(rng, part, task.definition.settings)

    async def one(candidate: Candidate) -> list[float]:
        await candidate.begin()
        packed, _ = await candidate.calls([("compress", [file]) for file in files])
        await candidate.begin_again()  # a process that has not seen the files
        if not all(isinstance(blob, bytes) for blob in packed):
            raise CrashError("wrong_answer", "compress must return bytes")
        unpacked, _ = await candidate.calls([("decompress", [blob]) for blob in packed])
        if not all(isinstance(file, bytes) for file in unpacked) or unpacked != files:
            raise CrashError("wrong_answer", "decompress did not return what was compressed")
        return [8 * len(blob) / len(file) for blob, file in zip(packed, files, strict=True)]

    await _each(candidates, found, one)


async def _lockstep(
    task: ImproveTask, candidates: Mapping[str, Candidate], rng: Random, part: str, found: Measured
) -> None:
    text, streams = task.scorer.texts(rng, part, task.definition.settings)
    budget, seed = task.definition.experiment.fit_seconds, rng.randrange(1 << 30)

    async def one(candidate: Candidate) -> list[float]:
        await candidate.begin()
        _, seconds = await candidate.call("fit", [text, budget, seed])
        columns = [bytes(column) for column in zip(*streams, strict=True)]
        steps: list[tuple[str, list[Any]]] = [("start", [len(streams)])]
        steps += [("step", [column]) for column in columns[:-1]]
        said, used = await candidate.calls(steps)
        for what, took in (("fit", seconds + used[0]), ("following the streams", sum(used[1:]))):
            if took > budget * 1.1 + 0.5:
                raise CrashError(
                    "over_budget", f"{what} took {took:.1f} s of processor time, not {budget:.1f}"
                )
        return bits(said, columns, len(streams))

    await _each(candidates, found, one)


def bits(said: list[Any], columns: list[bytes], streams: int) -> list[float]:
    """Return the mean bits per byte of each stream.

    Args:
        said: for each step, the 256 probabilities of each stream's next byte, as little-endian float32.
        columns: for each step, the byte that came in each stream.

    Raises:
        CrashError: these are no probabilities.
    """
    total = [0.0] * streams
    for probabilities, column in zip(said, columns, strict=True):
        if not isinstance(probabilities, bytes) or len(probabilities) != 4 * 256 * streams:
            raise CrashError("wrong_answer", f"a step must return {streams} times 256 float32 as bytes")
        numbers = array("f", probabilities)
        for stream, byte in enumerate(column):
            row = numbers[256 * stream : 256 * (stream + 1)]
            whole = math.fsum(row)
            if not math.isfinite(whole) or min(row) < 0:
                raise CrashError("numeric", "a probability is negative or not finite")
            total[stream] -= math.log2((row[byte] + SMOOTHING) / (whole + 256 * SMOOTHING))
    return [one / len(columns) for one in total]


async def _each(
    candidates: Mapping[str, Candidate], found: Measured, one: Callable[[Candidate], Any]
) -> None:
    for number, (name, candidate) in enumerate(candidates.items(), 1):
        values = await _tried(found, name, one(candidate))
        if values is not None:
            found.values[name] = values
        await report_progress(number, len(candidates), f"the {name} is measured")


async def _tried(found: Measured, name: str, doing: Any) -> Any:
    """Return what a candidate did; if it crashed, note that and return None."""
    try:
        done = await doing
    except CrashError as error:
        _crashed(found, name, error)
        return None
    return True if done is None else done


def _crashed(found: Measured, name: str, error: CrashError) -> None:
    if name in (BASELINE, estimate.REFERENCE):
        raise _BaselineFailed(name, error)
    found.crashes[name] = error


def judged(check: Callable[[Any, Any, Any], str], hidden: Any, expected: Any, answer: Any) -> str:
    """Return what is wrong with an answer. One that cannot even be compared is wrong."""
    try:
        return check(hidden, expected, answer)
    except Exception as error:
        return f"{_shown(answer)} cannot be compared: {type(error).__name__}"


def _shown(value: Any) -> str:
    try:
        return f"{value!r:.80}"
    except Exception:  # an array of text with characters beyond Unicode
        return f"a value of the type {type(value).__name__}"


def difference(expected: Any, answer: Any, tolerance: float) -> str:
    """Return where an answer differs from the expected one, or an empty text."""
    if _close(expected, answer, tolerance):
        return ""
    shape = getattr(expected, "shape", None)
    if isinstance(answer, np.ndarray) and answer.shape != shape and answer.size > MOST_NUMBERS:
        return f"the answer has {answer.size} numbers"
    expected, answer = (x.tolist() if hasattr(x, "tolist") else x for x in (expected, answer))
    if isinstance(expected, list) and isinstance(answer, list):
        if len(expected) != len(answer):
            return f"the answer has {len(answer)} parts, not {len(expected)}"
        pairs = enumerate(zip(expected, answer, strict=True))
        return next((f"part {n}: {why}" for n, (a, b) in pairs if (why := difference(a, b, tolerance))), "")
    number = isinstance(expected, float) or (isinstance(expected, int) and tolerance > 0)
    if number and not isinstance(expected, bool):
        if (
            isinstance(answer, (int, float))
            and not isinstance(answer, bool)
            and math.isclose(expected, answer, rel_tol=tolerance, abs_tol=tolerance)
        ):
            return ""
        return f"{answer!r:.80} is not {expected!r:.80}"
    return "" if type(expected) is type(answer) and expected == answer else f"{answer!r:.80} is wrong"


def _close(expected: Any, answer: Any, tolerance: float) -> bool:
    """Return whether two large arrays are the same, much faster than number by number.

    False where it is not sure: for other values, and where something differs or is infinite.
    """
    arrays = [one for one in (expected, answer) if isinstance(one, np.ndarray) and one.dtype in FLOATS]
    if len(arrays) < 2 or expected.shape != answer.shape:
        return False
    one, other = (array.astype(np.float64) for array in arrays)
    with np.errstate(all="ignore"):
        most = np.maximum(tolerance * np.maximum(abs(one), abs(other)), tolerance)  # as math.isclose has it
        return bool(np.all((abs(one - other) <= most) & np.isfinite(most)))  # infinity is near nothing


Measure = Callable[[ImproveTask, Mapping[str, Candidate], Random, str, Measured], Any]
MEASURES: dict[str, Measure] = {
    "fit_predict": _fit_predict,
    "codec": _codec,
    "lockstep": _lockstep,
    "text": _text,
}
