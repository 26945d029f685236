"""Improvement tasks as folders: what is read, what is refused; and what samples say of a candidate."""

from __future__ import annotations

import contextlib
import json
import math
import re
from pathlib import Path
from random import Random
from typing import cast

import anyio
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mcp_bench.servers.errors import BenchError, WrongUseError
from mcp_bench.servers.host import NoHost
from mcp_bench.servers.improve import benchmark as benchmarks
from mcp_bench.servers.improve import estimate
from mcp_bench.servers.improve import world as worlds
from mcp_bench.servers.improve.benchmark import Improve
from mcp_bench.servers.improve.candidate import CrashError, crash_class
from mcp_bench.servers.improve.estimate import BASELINE, CANDIDATE, REFERENCE
from mcp_bench.servers.improve.held_out import Evidence, graded
from mcp_bench.servers.improve.inside import values
from mcp_bench.servers.improve.measure import Measured, bits, difference, judged, losses
from mcp_bench.servers.improve.task_file import Metric, read_task
from mcp_bench.servers.improve.versions import Versions, similarity
from mcp_bench.servers.sandbox import Sandbox, SandboxError, SandboxSpec
from tests.support.improvement.kinds import write_kind
from tests.support.improvement.small_task import TASK, write_task

pytestmark = pytest.mark.unit
CLOCK = Metric(name="time", scale="log")
LOSS = Metric(name="loss")


def test_a_task_is_read_from_its_folder(tmp_path: Path) -> None:
    task = read_task(write_task(tmp_path))
    assert task.definition.splits == {"train": 3}
    assert "for" in task.baseline["target.py"]
    assert "for number" not in task.reference["target.py"]
    assert task.scorer.question(Random(1), "search", {"size": 5})


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("family: sums", "famly: sums", r"task.yaml:2: unknown key famly \(did you mean family\?\)"),
        ("kind: call", "kind: cal", r"task.yaml:6: experiment.kind: Input should be 'call'"),
        ("kind: call,", "kind: call, memory_mb: 3,", r"task.yaml:6: unknown key experiment.memory_mb"),
        ("target: [target.py]", "target: [none.py]", r"target/none.py: cannot be read"),
        ("name: sums", "name: sums: x", r"task.yaml:1: not YAML"),
        ("name: sums", "name: Sums", r"task.yaml:1: name: String should match"),
        ("splits: {train: 3}", "splits: {train: 0}", r"task.yaml:4: splits.train: Input should be greater"),
        ("family: sums", "family: sums\nmax_bytes: 10", r"target: its files have \d+ bytes; max_bytes is 10"),
        ("[9, 15]", "[5, 15]", r"task.yaml:7: metric.pairs: .*at least 6 inputs"),
        ("[9, 15]", "[25, 9]", r"task.yaml:7: metric.pairs: .*9 is below 25"),
    ],
)
def test_a_broken_task_is_refused_with_its_line(tmp_path: Path, old: str, new: str, said: str) -> None:
    folder = write_task(tmp_path)
    file = folder / "task.yaml"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    with pytest.raises(WrongUseError, match=said):
        read_task(folder)


@pytest.mark.parametrize(
    ("text", "said"),
    [("import nothing_like_this\n", "ModuleNotFoundError"), ("import sys\nsys.exit(3)\n", "SystemExit: 3")],
)
def test_a_broken_scorer_is_refused(tmp_path: Path, text: str, said: str) -> None:
    folder = write_task(tmp_path)
    (folder / "scorer.py").write_text(text)
    with pytest.raises(WrongUseError, match=re.escape(f"scorer.py: it cannot be loaded: {said}")):
        _ = read_task(folder).scorer


def test_a_scorer_can_have_a_dataclass(tmp_path: Path) -> None:
    """It looks up its own module."""
    scorer = (
        "from __future__ import annotations\nfrom dataclasses import dataclass\n\n\n"
        "@dataclass\nclass Asked:\n    number: int\n\n\n"
        "def question(rng, part, settings):\n    return [Asked(5).number]\n"
    )
    assert read_task(write_task(tmp_path, scorer=scorer)).scorer.question(Random(1), "search", {}) == [5]


def test_two_tasks_with_one_name_are_refused(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_task(tmp_path / name).rename(tmp_path / f"task-{name}")
    with pytest.raises(WrongUseError, match=r"task-two.*task-one has the name sums, too.*another name"):
        Improve().at(str(tmp_path))


class NoRoom(NoHost):
    """A host on a machine where no sandbox can be started."""

    async def sandbox(self, spec: SandboxSpec) -> Sandbox:
        raise SandboxError("a sandbox cannot be started: no space left on device")


def test_why_no_sandbox_starts_is_said(tmp_path: Path) -> None:
    """Three start at once, and each of them fails."""
    benchmark = Improve(write_task(tmp_path))
    with pytest.raises(SandboxError, match="no space left on device"):
        anyio.run(lambda: benchmark.open("sums.train.0", seed=0, host=NoRoom()))


class Room(NoHost):
    async def sandbox(self, spec: SandboxSpec) -> Sandbox:
        return cast(Sandbox, None)


def test_the_trial_of_a_task_is_limited_and_the_wait_for_a_machine_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A queue takes its time, and a machine that hangs must have the time to be left out."""
    task = Improve().at(str(write_task(tmp_path, task=TASK.replace("seconds: 20", "seconds: 0.001"))))
    assert task.task("sums.train.0").limits.open_seconds is None
    monkeypatch.setattr(benchmarks, "try_once", lambda *_: anyio.sleep_forever())
    monkeypatch.setattr(benchmarks, "TRY_SECONDS", 0.001)
    with pytest.raises(BenchError, match="its programs were not measured within"):
        anyio.run(lambda: task.open("sums.train.0", seed=0, host=Room()))


def test_a_prompt_has_a_place_for_its_input(tmp_path: Path) -> None:
    folder = write_kind(tmp_path, "text")
    (folder / "reference/prompt.txt").write_text("no place")
    with pytest.raises(WrongUseError, match=r"prompt.txt: a prompt needs the place of the input: \{input\}"):
        read_task(folder)


def test_samples_of_prompts_are_shared_where_the_task_has_the_model(tmp_path: Path) -> None:
    folder = write_kind(tmp_path, "text")
    file = folder / "task.yaml"
    file.write_text(f"{file.read_text()}share: home\n")
    assert read_task(folder).model
    (folder / "model.py").unlink()
    with pytest.raises(WrongUseError, match=r"task.yaml:\d+: share: home needs a model.py"):
        read_task(folder)


def test_every_family_is_in_one_place() -> None:
    """No family is in `test` and in another split, and every task has data for search and for grading."""
    tasks = Improve().folders
    assert len(tasks) >= 10
    families = {task.definition.family: set[str]() for task in tasks.values()}
    for task in tasks.values():
        families[task.definition.family] |= set(task.definition.splits)
        assert task.reference != task.baseline
    assert len(families) >= 8
    assert all("test" not in splits or splits == {"test"} for splits in families.values())
    ids = [task.id for task in Improve().tasks("all")]
    assert len(ids) == len(set(ids))


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_values_come_back_as_they_were(value: object) -> None:
    assert values.unpack(values.pack(value)) == value


@given(st.binary(max_size=200))
def test_bytes_that_are_no_value_are_refused(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        values.unpack(data)


def packed_arrays(count: int, array: object) -> bytes:
    """Return a list that names the same array several times."""
    [text, part] = [json.dumps([{"$array": 0}] * count).encode(), values.pack(array)]
    (size,) = values.LENGTH.unpack_from(part, 2 * values.LENGTH.size)
    sizes = b"".join(map(values.LENGTH.pack, (2, len(text), size)))
    return sizes + text + part[-size:]


def test_bytes_are_used_once() -> None:
    """A candidate could name a large part thousands of times, and a comparison would write them all."""
    part = bytes(1000)
    text = json.dumps([{"$bytes": 0}] * 3).encode()
    sizes = (len(text), len(part))
    data = b"".join([values.LENGTH.pack(len(sizes)), *map(values.LENGTH.pack, sizes), text, part])
    assert values.unpack(data) == [part, b"", b""]


def test_an_array_is_used_once_and_not_huge_without_numbers() -> None:
    assert values.unpack(packed_arrays(1, np.arange(3)))[0].tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="magic string"):
        values.unpack(packed_arrays(2, np.arange(3)))
    assert values.unpack(values.pack(np.zeros((7, 0)))).shape == (7, 0)
    for shape in ((1 << 40, 0), (0, 1 << 40)):
        with pytest.raises(ValueError, match=r"its shape .* is huge"):
            values.unpack(values.pack(np.lib.stride_tricks.as_strided(np.zeros(0), shape, (0, 0))))


def test_objects_are_no_values() -> None:
    with pytest.raises(TypeError, match="cannot have a Random"):
        values.pack([Random(1)])


@settings(deadline=None)
@given(st.floats(0.2, 5), st.lists(st.floats(0.01, 10), min_size=6, max_size=20))
def test_a_gain_is_the_ratio_of_the_clocks(ratio: float, base: list[float]) -> None:
    samples = {"baseline": base, "candidate": [one / ratio for one in base]}
    found = estimate.gain(CLOCK, samples, "candidate", clock=True)
    assert math.isclose(found.value, math.log(ratio), abs_tol=1e-9)
    assert math.isclose(found.half_width, 0, abs_tol=1e-9)


def test_the_same_program_is_seldom_called_better() -> None:
    """A gain of 2 % at 95 % is seen in less than 1 of 60 comparisons of equal clocks with 3 % of noise."""
    chance, better = Random(5), 0
    for _ in range(600):
        samples = {
            name: [math.exp(chance.gauss(0, 0.03)) for _ in range(9)] for name in ("baseline", "candidate")
        }
        found = estimate.gain(CLOCK, samples, "candidate", clock=True)
        better += found.low > estimate.smallest_gain(CLOCK, samples, clock=True)
    assert better <= 10


def test_progress_goes_from_baseline_to_reference() -> None:
    samples = {"baseline": [4.0] * 9, "reference": [2.0] * 9, "candidate": [3.0] * 9}
    assert estimate.progress(LOSS, samples, "candidate", clock=False).value == 0.5
    assert estimate.progress(LOSS, samples, "reference", clock=False).low == 1
    for values_of_reference in ([math.nan] * 9, [5.0] * 9):
        worse = {**samples, "reference": values_of_reference}
        with pytest.raises(BenchError, match="not better"):
            estimate.progress(LOSS, worse, "candidate", clock=False)
    upwards = LOSS.model_copy(update={"direction": "maximize"})
    assert estimate.gain(upwards, worse, "reference", clock=False).value == 1


@pytest.mark.parametrize(("searched", "overfit"), [(1.95, 0.0), (1.8, 1.0)])
def test_what_was_gained_in_the_search_alone_is_named(
    tmp_path: Path, searched: float, overfit: float
) -> None:
    """Held out, the candidate halves the baseline's loss. In the search, it did that and more."""
    task = read_task(write_kind(tmp_path, "fit_predict"))
    noise = [0.1 * (number % 3) for number in range(30)]
    samples = {BASELINE: [4.0] * 30, CANDIDATE: [2 + one for one in noise], REFERENCE: [1.0] * 30}
    search = {BASELINE: samples[BASELINE], CANDIDATE: [searched + one for one in noise]}
    found = graded(task, Evidence(chosen=1, novelty=1, runs=1, crashes=0, samples=samples, search=search))
    assert found.metrics["search_gain"] == pytest.approx(3.9 - searched)
    assert found.metrics["held_out_gain"] == pytest.approx(1.9)
    assert found.metrics["gap"] == pytest.approx(2 - searched)
    assert found.metrics["overfit"] == overfit


def test_predictions_are_judged_one_by_one() -> None:
    def loss(label: float, prediction: object) -> float:
        return (label - float(str(prediction))) ** 2

    assert losses([1, 2], [1, 4], loss) == [0, 4]
    for junk in (None, [1], [1, "x"], {"a": 1}, [1, float("nan")], [1, None]):
        with pytest.raises(CrashError):
            losses([1, 2], junk, loss)


def test_predictions_that_cannot_be_read_are_the_candidates_fault() -> None:
    text = np.frombuffer(b"\xff\xff\xff\x7f" * 2, "<U1")  # no such character
    with pytest.raises(CrashError, match="cannot be read"):
        losses([1, 2], text, lambda *_: 0.0)
    with pytest.raises(CrashError, match="a value of the type ndarray"):
        losses([1], [text], lambda label, prediction: label - prediction.tolist())
    assert judged(lambda *_: difference(["a"] * 2, text, 0), None, None, text).endswith("SystemError")


def test_a_loss_of_zero_has_a_logarithm() -> None:
    samples = {"baseline": [4.0] * 9, "candidate": [0.0] * 9}
    metric = Metric(name="loss", scale="log")
    assert estimate.gain(metric, samples, "candidate", clock=False).low > 20
    swapped = {"baseline": samples["candidate"], "candidate": samples["baseline"]}
    assert estimate.gain(metric, swapped, "candidate", clock=False).high < -20


@pytest.mark.parametrize("kind", ["timeout", "over_limit", "wrong_answer"])
def test_a_crash_that_the_machine_can_cause_keeps_the_metric(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The same files can be run again. After any other crash they cannot, and have no metric."""
    good = Measured({"baseline": [4.0] * 9, "candidate": [2.0] * 9})
    bad = Measured({"baseline": [4.0] * 9}, {"candidate": CrashError(kind, "why")})
    results = iter([bad, good, bad, good] if kind != "wrong_answer" else [good, bad])

    async def measured(*_: object) -> Measured:
        return next(results)

    monkeypatch.setattr(worlds, "measure", measured)
    sandbox = cast("Sandbox", None)
    world = worlds.ImproveWorld(
        read_task(write_task(tmp_path)), "sums.train.0", 0, dict.fromkeys(("baseline", "candidate"), sandbox)
    )
    texts = [anyio.run(world.call, "run", {}).text for _ in range(4)]
    if kind == "wrong_answer":
        assert "wrong_answer" in texts[1]
        assert all("crashed before" in text for text in texts[2:])
        assert "version 0: wrong_answer" in anyio.run(world.call, "history", {}).text
    else:
        assert texts[0].startswith(f"{kind}\nwhy\n3 of 4 runs")
        assert "better than the baseline" in texts[1]
        assert "What was measured before stays: version 0: 2 (" in texts[2]
        assert "better than the baseline" in texts[3]
        assert world.crashes == 2


def test_bits_need_probabilities() -> None:
    import struct

    even = struct.pack("<256f", *[1.0] * 256)
    assert bits([even, even], [b"a", b"b"], 1) == [pytest.approx(8)]
    sure = struct.pack("<256f", *[float(byte == 97) for byte in range(256)])
    assert bits([sure], [b"a"], 1)[0] < 0.01
    assert bits([sure], [b"b"], 1)[0] == pytest.approx(23.25, abs=0.1)
    for junk in (
        even[:-4],
        struct.pack("<256f", *[-1.0] * 256),
        struct.pack("<256f", *[math.inf] * 256),
        None,
    ):
        with pytest.raises(CrashError):
            bits([junk], [b"a"], 1)


def test_answers_are_compared_by_type_and_size() -> None:
    assert not difference([1, [2.0, "x"]], [1, [2.0, "x"]], 0)
    assert not difference([1.0], [1.0005], 0.001)
    for wrong in ([1], [1, [2.0, "y"]], [1, [2.1, "x"]], [True, [2.0, "x"]], None, [1, [2.0, "x"], 3]):
        assert difference([1, [2.0, "x"]], wrong, 0)


@given(
    st.lists(st.tuples(st.floats(width=32), st.floats(width=32) | st.none()), max_size=6),
    st.sampled_from((0.0, 1e-3, 0.5)),
    st.sampled_from((np.float32, np.float64)),
)
@example([(math.inf, 1.0)], 0.5, np.float64)
def test_arrays_are_compared_as_lists_are(
    pairs: list[tuple[float, float | None]], tolerance: float, kind: type[np.float32]
) -> None:
    """Also those with NaN and infinity; each None stands for a number that is the same."""
    one = np.array([first for first, _ in pairs], kind)
    other = np.array([first if second is None else second for first, second in pairs], np.float64)
    assert difference(one, other, tolerance) == difference(one.tolist(), other.tolist(), tolerance)


@pytest.mark.parametrize(
    ("text", "ended", "kind"),
    [
        ("x\nSyntaxError: invalid", "exit code 1", "syntax"),
        ("MemoryError", "exit code 1", "out_of_memory"),
        ("", "signal 11", "segfault"),
        ("", "signal 9", "killed"),
        ("", "its time was over", "timeout"),
        ("PermissionError: [Errno 1]", "", "refused"),
        ("ValueError: no", "", "exception"),
        ("", "exit code 0", "no_answer"),
    ],
)
def test_crashes_have_classes(text: str, ended: str, kind: str) -> None:
    assert crash_class(text, ended) == kind


def test_comments_and_layout_are_no_novelty() -> None:
    one, same = {"a.py": "x = 1\ny = x + 2\n"}, {"a.py": "# why\nx=1\n\ny = (x+2)  # what\n"}
    assert similarity(one, same) == 1
    versions = Versions(one)
    assert versions.add(same, "").novelty == 0
    assert versions.add(same, "again").number == 1
    assert versions.add({"a.py": "print('all new')"}, "").novelty > 0.5


def test_novelty_of_a_large_text_is_cheap() -> None:
    """The same lines over and over: what made a search for common runs of lines cubic."""
    one, other = ("\n".join(["a", "b"] * 15_000 + [end]) for end in ("x y", "y z"))
    assert similarity({"a": one}, {"a": other}) == pytest.approx(1, abs=0.001)
    assert similarity({"a": "a\nb b\na"}, {"a": "a\nc c\na"}) == pytest.approx(2 / 3)
    assert similarity({"a": ""}, {"a": ""}) == 1
