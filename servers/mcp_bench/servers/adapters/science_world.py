"""ScienceWorld: a text world for school science (Wang et al., EMNLP 2022), in its own Scala simulator.

The simulator's gold paths are the oracle, its own lists of variations are the splits. All worlds share one
Java process, and chance is set before each move: a world goes the same way every time. The package's
`ScienceWorldEnv` starts a process for each world, and lets everybody on this machine call into it; here the
gateway demands a token. Only a worker imports this module.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from threading import Lock
from typing import Any
from zlib import crc32

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from scienceworld.constants import BASEPATH, JAR_PATH

from mcp_bench.servers.contracts import JSON, Score
from mcp_bench.servers.worlds.step_world import LOOK, Game, Move, StepBenchmark, TextWorld, text_tool

ACT = text_tool("act", "Do something in the world. Returns what happens.")
JAVA_OPTIONS = (
    # by default a heap grows to a quarter of the machine's memory before Java looks for garbage
    "-Xmx1g",
    "-XX:+UseSerialGC",
    # the simulator walks through sets whose order follows from hashes; these are random by default
    "-XX:+IgnoreUnrecognizedVMOptions",
    "-XX:+UnlockExperimentalVMOptions",
    "-XX:hashCode=2",
)
WORLDS, PATHS = "worlds", "paths"
"""What a Java process is for: gold paths take seconds, and worlds do not wait for them."""
ONE_AT_A_TIME = {WORLDS: Lock(), PATHS: Lock()}
"""Held while chance is used: tasks are listed in a thread."""
MOVES = 250
LISTED = {"train": 20, "dev": 5, "test": 5}
"""Variations of a task type that a split lists, at most. All others are tasks, too."""
RULES = f"""You are in a building with a laboratory, and you have a task. The tool `act` takes one action as
words: `look around`, `look at OBJ`, `look in OBJ`, `open OBJ`, `close OBJ`, `go to LOCATION`, `pick up OBJ`,
`put down OBJ`, `move OBJ to OBJ`, `pour OBJ into OBJ`, `dunk OBJ into OBJ`, `mix OBJ`, `use OBJ on OBJ`,
`activate OBJ`, `deactivate OBJ`, `connect OBJ to OBJ`, `disconnect OBJ`, `read OBJ`, `eat OBJ`, `flush OBJ`,
`inventory`, `task`, `wait`, `wait1`, and `focus on OBJ`, which says what you mean: focus only on what the
task asks for, since a wrong one ends it. If a name is ambiguous, you are asked to answer with a number (`0`).
You have at most {MOVES} actions."""


@cache
def gateway(use: str = WORLDS) -> JavaGateway:
    """Start a Java process of the simulator, once for each use. It ends with this process."""
    port, token, process = launch_gateway(
        classpath=JAR_PATH,
        javaopts=list(JAVA_OPTIONS),
        die_on_exit=True,
        cwd=BASEPATH,
        return_proc=True,
        enable_auth=True,
    )
    parameters = GatewayParameters(auto_field=True, port=port, auth_token=token)
    return JavaGateway(gateway_parameters=parameters, java_process=process)


def simulator(use: str = WORLDS) -> Any:
    """Return a new simulator in the Java process of a use."""
    return gateway(use).jvm.scienceworld.runtime.pythonapi.PythonInterface()


@cache
def generator(use: str) -> Any:
    """Return the random numbers that all simulators of a Java process share."""
    return getattr(getattr(gateway(use).jvm.scala.util, "Random$"), "MODULE$")


@contextmanager
def own_chance(kind: str, number: int, moves: int = 0, use: str = WORLDS) -> Iterator[None]:
    """Let chance, such as where bees fly, follow from the task and the moves so far."""
    with ONE_AT_A_TIME[use]:
        generator(use).setSeed(crc32(f"{kind}.{number}.{moves}".encode()))
        yield


@cache
def lister() -> Any:
    """Return the simulator that is asked for lists and descriptions."""
    return simulator()


@cache
def kinds() -> tuple[str, ...]:
    """Return the types of tasks."""
    return tuple(map(str, lister().getTaskNames()))


@cache
def variations(kind: str) -> dict[str, list[int]]:
    """Return the variations of a task type by split."""
    with own_chance(kind, 0):
        lister().load(kind, 0, "", False)
        lists = (lister().getVariationsTrain(), lister().getVariationsDev(), lister().getVariationsTest())
    return dict(zip(LISTED, (list(map(int, one)) for one in lists), strict=True))


@lru_cache(maxsize=4096)
def description(kind: str, number: int) -> str:
    with own_chance(kind, number):
        lister().load(kind, number, "", False)
        return str(lister().getTaskDescription())


@lru_cache(maxsize=4096)
def gold_path(kind: str, number: int) -> tuple[str, ...]:
    """Return the simulator's own solution. It is made with the world, which takes up to some seconds."""
    made = simulator(PATHS)
    with own_chance(kind, number, use=PATHS):
        made.load(kind, number, "", True)
        return tuple(map(str, made.getGoldActionSequence()))


class ScienceWorld(TextWorld):
    """One attempt at a variation of a task."""

    move_tool = ACT
    most_moves = MOVES
    counted = "Actions"

    def __init__(self, kind: str, number: int) -> None:
        self.kind, self.number = kind, number
        self._simulator = simulator()
        with own_chance(kind, number):
            self._simulator.load(kind, number, "", False)
            self._simulator.reset()
            self.text = str(self._simulator.step("look around"))
        self._start = self.points = self._points()
        self.actions: list[str] = []

    def act(self, move: Move) -> float:
        action, before = str(move["action"]), self.points
        with own_chance(self.kind, self.number, len(self.actions) + 1):
            text = str(self._simulator.step(action))
        self.actions.append(action)
        self.points = self._points()
        self.show(text, over=bool(self._simulator.getCompleted()))
        return self.points - before

    def policy(self) -> Move | None:
        path = gold_path(self.kind, self.number)
        done = len(self.actions)
        return {"action": path[done]} if tuple(self.actions) == path[:done] and done < len(path) else None

    def score(self) -> Score:
        """Return the benchmark's own points. Some tasks give some for the start: they earn nothing."""
        return Score(name="points", value=self.points, unit="points", baseline=self._start, par=100)

    async def snapshot(self) -> JSON:
        return {"points": self.points, "actions": list(self.actions), "seen": self.text}

    def _points(self) -> float:
        return float(round(100 * float(self._simulator.getScore())))


class ScienceWorldBenchmark(StepBenchmark):
    name = "scienceworld"
    version = "2"
    summary = "School science in a text world: 30 types of tasks, scored by the simulator."
    private_splits = ()
    toolset = (ACT, LOOK)
    rules = RULES
    max_calls = MOVES + 50
    attempt_seconds = 1800

    def make_game(self, family: str, number: int) -> ScienceWorld:
        return ScienceWorld(family, number)

    def make_prompt(self, family: str, number: int) -> str:
        return description(family, number)

    def ids(self, split: str) -> Iterator[str]:
        """Yield the first variation of each type, then the second of each, and so on."""
        for place in range(LISTED[split]):
            for kind in kinds():
                numbers = variations(kind)[split]
                if place < len(numbers):
                    yield f"{kind}.{numbers[place]}"

    def game_of(self, task_id: str) -> Game | None:
        kind, _, digits = task_id.rpartition(".")
        if kind not in kinds() or not (digits.isascii() and digits.isdecimal()):
            return None
        number = int(digits)
        split = next((split for split, numbers in variations(kind).items() if number in numbers), None)
        return Game(kind, split, number) if split and str(number) == digits else None


BENCHMARK = ScienceWorldBenchmark()
