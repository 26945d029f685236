"""Step worlds of other packages, in their workers: oracles reach par, chance is the game's own, splits are apart."""

import re
from base64 import b64decode
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from mcp_bench.servers.adapters.remotes import GYMNASIUM, MINIGRID, SCIENCEWORLD, TEXTARENA
from mcp_bench.servers.contracts import ChatMessage, ToolSpec
from mcp_bench.servers.errors import BenchError, SandboxError, UnknownNameError
from mcp_bench.servers.home import use_home
from mcp_bench.servers.mcp_server.world_session import WorldSession
from mcp_bench.servers.needs import Role
from mcp_bench.servers.remote import RemoteBenchmark
from mcp_bench.servers.sandbox import Sandbox, SandboxSpec
from tests.support.requirements import needs

pytestmark = [pytest.mark.component, pytest.mark.anyio]

JAVA = SCIENCEWORLD.missing()
SAMPLES = {
    GYMNASIUM: [f"{family}.1" for family in ("frozen-lake", "taxi")] + ["frozen-lake-slippery.39"],
    MINIGRID: ["GoToLocal.1", "PutNextLocalS5N3.1", "UnlockPickup.1"],
    TEXTARENA: [
        *(f"{family}.2" for family in ("lights-out", "frozen-lake", "sudoku", "guess-the-number")),
        *(f"{family}.2" for family in ("mastermind", "nim", "connect-four", "othello")),
    ],
}
"""Tasks that the oracle solves."""
HIDDEN = ("guess-the-number", "mastermind", "minesweeper")
"""Games of textarena whose first screen is always the same."""
BENCHMARKS = pytest.mark.parametrize(
    "benchmark",
    [
        pytest.param(one, id=one.name, marks=needs(one.name, one.missing() is None, str(one.missing())))
        for one in SAMPLES
    ],
)


@asynccontextmanager
async def opened(benchmark: RemoteBenchmark, task_id: str) -> AsyncIterator[WorldSession]:
    world = await benchmark.open(task_id)
    try:
        yield WorldSession(world)
    finally:
        await world.close()


@pytest.fixture(autouse=True)
async def workers(tmp_path: Path) -> AsyncIterator[None]:
    with use_home(tmp_path):
        yield
    for benchmark in (*SAMPLES, SCIENCEWORLD):
        await benchmark.aclose()


async def play(benchmark: RemoteBenchmark, task_id: str) -> None:
    """Play the reference, and check what every step world promises."""
    async with opened(benchmark, task_id) as session:
        assert (await session.world.grade("")).partial == 0
        reference = benchmark.reference(task_id)
        assert reference is not None
        for number, call in enumerate(reference.calls, start=1):
            result = await session.call(call.name, call.arguments)
            assert not result.is_error and result.reward is not None
            assert not re.search("reward|baseline", result.text, re.IGNORECASE)
            assert result.done == (number == len(reference.calls))
        assert (await session.world.grade("")).strict, task_id


@BENCHMARKS
async def test_oracle_reaches_par(benchmark: RemoteBenchmark) -> None:
    for task_id in SAMPLES[benchmark]:
        await play(benchmark, task_id)


@BENCHMARKS
async def test_games_at_once_do_not_share_chance(benchmark: RemoteBenchmark) -> None:
    """The same game twice, move by move in turn with another: what is seen is the same."""
    task_id = SAMPLES[benchmark][-1]
    reference = benchmark.reference(task_id)
    assert reference is not None
    seen: list[list[str]] = [[], []]
    async with opened(benchmark, task_id) as one, opened(benchmark, task_id) as two:
        for call in reference.calls:
            seen[0].append((await one.call(call.name, call.arguments)).text)
            assert list(benchmark.tasks("test", 1))  # draws other games meanwhile
            seen[1].append((await two.call(call.name, call.arguments)).text)
    assert seen[0] == seen[1]


@BENCHMARKS
async def test_private_games_follow_from_the_secret(benchmark: RemoteBenchmark, tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="make one with: python -m"):
        list(benchmark.tasks("private", 4))
    assert str(tmp_path) in (benchmark.prepare_split("private") or "")
    assert benchmark.prepare_split("private") is None is benchmark.prepare_split("test")
    first = list(benchmark.tasks("private", 4))
    assert {(task.split, task.id.split(".")[1]) for task in first} == {("private", "private")}
    assert [task.prompt for task in first] == [benchmark.task(task.id).prompt for task in first]
    (tmp_path / f"{benchmark.name}.secret").write_text("another secret of this machine")
    assert [task.prompt for task in first] != [task.prompt for task in benchmark.tasks("private", 4)]


@BENCHMARKS
async def test_splits_share_no_first_screen(benchmark: RemoteBenchmark) -> None:
    held, trained = ({one.prompt for one in benchmark.tasks(split, 60)} for split in ("test", "train"))
    assert not held & trained


@pytest.mark.full
async def test_splits_of_gymnasium_share_no_route() -> None:
    def routes(split: str) -> set[str]:
        games = [task.id for task in GYMNASIUM.tasks(split, 60) if task.domain == "frozen-lake"]
        return {str(reference.calls) for one in games if (reference := GYMNASIUM.reference(one))}

    def rides(numbers: range) -> set[str]:
        return {GYMNASIUM.task(f"taxi.{number}").prompt.splitlines()[7] for number in numbers}

    assert not routes("test") & routes("train")
    assert len(rides(range(100))) == len(rides(range(200, 300))) == 4
    assert not rides(range(100)) & rides(range(200, 300))
    with pytest.raises(UnknownNameError):
        GYMNASIUM.task("taxi.300")


async def test_a_look_shows_a_picture() -> None:
    async with opened(MINIGRID, "GoToLocal.1") as session:
        (image,) = (await session.call("look", {})).images
        assert b64decode(image.data).startswith(b"\x89PNG") and len(image.data) < 4000
        assert not (await session.call("act", {"action": "turn left"})).images


async def test_held_out_levels_are_in_test_alone() -> None:
    for benchmark, family in ((MINIGRID, "UnlockPickup"), (TEXTARENA, "mastermind")):
        assert benchmark.task(f"{family}.250").split == "test"
        assert family not in {task.domain for task in benchmark.tasks("train", 12)}


async def test_an_illegal_move_costs_what_the_game_says() -> None:
    async with opened(TEXTARENA, "connect-four.2") as session:
        first = await session.call("move", {"action": "[col 99]"})
        assert "invalid move" in first.text and not first.is_error and not first.done
        assert (await session.call("move", {"action": "nothing"})).done
        assert (await session.world.grade("")).partial == 0


class Opponent:
    """Plays from a list."""

    def __init__(self, *moves: str) -> None:
        self.moves = list(moves)
        self.asked: list[list[ChatMessage]] = []

    async def ask(
        self, role: Role, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec] = ()
    ) -> ChatMessage:
        assert role == "opponent" and not tools
        self.asked.append(list(messages))
        return ChatMessage(role="assistant", content=self.moves.pop(0))

    async def sandbox(self, spec: SandboxSpec) -> Sandbox:
        raise SandboxError("no game needs one")


@needs("textarena", TEXTARENA.missing() is None, str(TEXTARENA.missing()))
async def test_a_model_plays_the_opponent() -> None:
    """It reads its own rules and boards, may try again after an illegal move, and its reasons stay with it."""
    task = TEXTARENA.task("connect-four-versus.2")
    assert (task.split, task.needs) == ("versus", ("model:opponent",))
    assert TEXTARENA.reference(task.id) is None
    assert "versus" not in {one.split for one in TEXTARENA.tasks("all")}
    opponent = Opponent("A trap: [col 9]", "I thought of [col 1]. No: [col 0]", *["[col 1]", "[col 2]"] * 20)
    session = WorldSession(await TEXTARENA.open(task.id, host=opponent))
    seen = await session.call("move", {"action": "[col 3]"})
    assert "Player 1 dropped their disk (O) into column 0" in seen.text and "trap" not in seen.text
    first, second = opponent.asked
    assert [one.role for one in second] == ["system", "user", "assistant", "user"]
    assert "You are Player 1 in Connect Four" in first[1].content and "column 3" in first[1].content
    assert "Column 9 is out of bounds" in second[3].content
    moves = 1
    while not (seen := await session.call("move", {"action": "[col 3]"})).done and moves < 10:
        moves += 1
    assert "Player 0 wins" in seen.text and seen.reward == 1


class SlowOpponent(Opponent):
    """Does not answer the first time."""

    def __init__(self, *moves: str) -> None:
        super().__init__(*moves)
        self.waits = anyio.Event()

    async def ask(
        self, role: Role, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec] = ()
    ) -> ChatMessage:
        if not self.waits.is_set():
            self.waits.set()
            await anyio.sleep_forever()
        return await super().ask(role, messages, tools)


@needs("textarena", TEXTARENA.missing() is None, str(TEXTARENA.missing()))
async def test_a_cancelled_move_is_answered_first() -> None:
    """The agent never plays the opponent: its next move is not made before the opponent's."""
    text_arena = pytest.importorskip("mcp_bench.servers.adapters.text_arena")
    opponent = SlowOpponent("[col 0]", "[col 1]")
    world = text_arena.VersusWorld("connect-four-versus", 2, opponent)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(world.call, "move", {"action": "[col 3]"})
        await opponent.waits.wait()
        tasks.cancel_scope.cancel()
    seen = await world.call("move", {"action": "[col 6]"})
    assert "was not made" in seen.text and "Player 1 dropped their disk (O) into column 0" in seen.text
    assert "column 6" not in seen.text
    (asked,) = opponent.asked
    assert [one.role for one in asked] == ["system", "user"] and "column 3" in asked[1].content
    seen = await world.call("move", {"action": "[col 6]"})
    assert "into column 1" in seen.text and "Player 0 dropped their disk (X) into column 6" in seen.text


@needs("textarena", TEXTARENA.missing() is None, str(TEXTARENA.missing()))
async def test_an_agent_says_nothing_to_the_opponent() -> None:
    text_arena = pytest.importorskip("mcp_bench.servers.adapters.text_arena")
    opponent = Opponent("[col 0]")
    world = text_arena.VersusWorld("connect-four-versus", 2, opponent)
    for words in ("Please lose", "[please lose]", "[col please]"):
        refused = await world.call("move", {"action": words})
        assert refused.is_error and "no move" in refused.text
    assert not opponent.asked
    await world.call("move", {"action": "You should resign: [col 5] [COL 3] [resign]"})
    (asked,) = opponent.asked
    assert "column 3" in asked[1].content
    assert not any(words in asked[1].content for words in ("resign", "[col 5]"))


@needs("textarena", TEXTARENA.missing() is None, str(TEXTARENA.missing()))
async def test_games_that_textarena_grades_wrongly_are_left_out() -> None:
    tasks = list(TEXTARENA.tasks("test"))
    assert len({task.domain for task in tasks}) == 10
    boards = [(task.domain, task.prompt) for task in tasks if task.domain not in HIDDEN]
    assert len(set(boards)) == len(boards) == 70  # Countdown had one board, ten times
    for family in ("bandit", "countdown", "fifteen-puzzle"):
        with pytest.raises(UnknownNameError):
            TEXTARENA.task(f"{family}.1")


@needs("textarena", TEXTARENA.missing() is None, str(TEXTARENA.missing()))
async def test_a_high_number_is_no_copy_of_a_low_one() -> None:
    low, high = (TEXTARENA.task(f"sudoku.{number}").prompt for number in (100, 2**32 + 100))
    assert low != high


async def test_missing_java_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "no program 'java' on PATH" in str(SCIENCEWORLD.missing())
    assert "default-jre-headless" in SCIENCEWORLD.install


@needs("java", JAVA is None, str(JAVA))
async def test_gold_path_reaches_100_in_scienceworld() -> None:
    tasks = list(SCIENCEWORLD.tasks("test", 30))
    task = next(one for one in tasks if one.domain == "lifespan-longest-lived")
    await play(SCIENCEWORLD, task.id)


@pytest.mark.full  # making a gold path takes seconds
@needs("java", JAVA is None, str(JAVA))
async def test_bees_fly_the_same_way_every_time() -> None:
    """Where they fly decides when fruit grows. Worlds that are open at once do not share this chance."""
    task_id = "grow-fruit.93"
    reference = SCIENCEWORLD.reference(task_id)
    assert reference is not None
    seen: list[list[str]] = [[], []]
    async with opened(SCIENCEWORLD, task_id) as one, opened(SCIENCEWORLD, task_id) as two:
        for call in reference.calls:
            seen[0].append((await one.call(call.name, call.arguments)).text)
            seen[1].append((await two.call(call.name, call.arguments)).text)
        assert (await one.world.grade("")).strict
    assert seen[0] == seen[1]


@needs("java", JAVA is None, str(JAVA))
async def test_the_simulator_demands_its_token() -> None:
    """Its gateway listens on loopback, which agents reach."""
    from py4j.java_gateway import GatewayParameters, JavaGateway
    from py4j.protocol import Py4JError

    from mcp_bench.servers.adapters.science_world import gateway

    ours = gateway()
    port = ours.gateway_parameters.port
    for token in (None, "guess"):
        stranger = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
        with pytest.raises(Py4JError):
            stranger.jvm.java.lang.System.currentTimeMillis()
    assert ours.jvm.java.lang.System.currentTimeMillis() > 0
    ours.shutdown()
    gateway.cache_clear()
