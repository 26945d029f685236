"""BabyAI's levels in MiniGrid (Chevalier-Boisvert et al., ICLR 2019), as text and as a picture.

The player sees the 7 by 7 cells before it and has an instruction. The package's own bot is the oracle: it
plans with what has been seen so far. `look` also returns a picture of the view. Only a worker imports this
module: see `mcp_bench.servers.adapters.remotes`.
"""

from __future__ import annotations

from base64 import b64encode
from contextlib import redirect_stdout
from io import BytesIO, StringIO
from typing import Any

import gymnasium
import minigrid  # noqa: F401 - registers its levels with gymnasium
import pygame
from minigrid.core.constants import IDX_TO_COLOR, IDX_TO_OBJECT, STATE_TO_IDX
from minigrid.utils.baby_ai_bot import BabyAIBot

from mcp_bench.servers.contracts import JSON, Image, Score, ToolResult
from mcp_bench.servers.worlds.step_world import LOOK, Move, StepBenchmark, StepWorld, act_tool

ACTIONS = ("turn left", "turn right", "go forward", "pick up", "drop", "toggle")
"""In the order of minigrid's own action numbers."""
MOVES = 100
TILE = 16
"""Pixels of a cell in a picture."""
LEVELS = (
    *("GoToObj", "GoToLocal", "GoToObjMazeS4", "GoToSeqS5R2", "OpenDoorColor", "OpenDoorLoc", "PickupLoc"),
    *("PickupDist", "PutNextLocalS5N3", "PutNextLocalS6N4", "UnlockLocalDist", "PickupAbove"),
)
HELD_OUT = (
    "GoToDoor",
    "OpenTwoDoors",
    "PutNextS5N2",
    "UnlockPickup",
    "UnlockPickupDist",
    "BlockedUnlockPickup",
)
"""Levels of the test split alone: they combine what the others ask for one by one."""
ACT = act_tool(ACTIONS)
RULES = f"""You are in a building of rooms, and you have a mission. You see a square of 7 by 7 cells: you are
in the middle of its last row and look up (`^`). '#' is a wall, '.' is floor, '?' is not visible. Things
are a key (k), a ball (b), a box (x), and doors: open (_), closed (d) or locked (l). `pick up`, `drop`
and `toggle` concern the cell right before you: `toggle` opens and closes doors and boxes, and a locked door
if you carry the key of its colour. You carry one thing at a time. You get there when you stand before
a thing and face it. You have at most {MOVES} moves."""
SIGNS = {
    "unseen": "?",
    "wall": "#",
    "empty": ".",
    "floor": ".",
    "key": "k",
    "ball": "b",
    "box": "x",
    "goal": "G",
}
DOORS = {
    STATE_TO_IDX["open"]: ("_", "open "),
    STATE_TO_IDX["closed"]: ("d", "closed "),
    STATE_TO_IDX["locked"]: ("l", "locked "),
}


def make(level: str, number: int) -> Any:
    """Return minigrid's own environment of a game, at its start."""
    env: Any = gymnasium.make(f"BabyAI-{level}-v0", disable_env_checker=True).unwrapped
    with redirect_stdout(StringIO()):  # it prints the draws that it rejects
        env.reset(seed=number)
    return env


def place(ahead: int, aside: int) -> str:
    """Return in words where something is."""
    sides = f"{abs(aside)} to the {'right' if aside > 0 else 'left'}" if aside else ""
    return " and ".join(filter(None, [f"{ahead} ahead" if ahead else "", sides]))


class MiniGridWorld(StepWorld):
    """One game of a level."""

    move_tool = ACT

    def __init__(self, level: str, number: int) -> None:
        self.level = level
        self._env = make(level, number)
        self._bot: Any = None
        self._made: list[int] = []
        """Actions since the bot was last asked."""
        self._next: Any = None
        self.mission = str(self._env.mission)
        self.moves_left = min(MOVES, int(self._env.max_steps))
        self.succeeded = False

    def observe(self) -> str:
        cells = self._env.gen_obs()["image"]  # [aside][ahead], with the player at [3][6]
        size = len(cells)
        rows = [[" "] * size for _ in range(size)]
        things = []
        for x in range(size):
            for y in range(size):
                kind, colour, state = (int(part) for part in cells[x][y])
                name = IDX_TO_OBJECT[kind]
                sign, how = DOORS[state] if name == "door" else (SIGNS[name], "")
                rows[y][x] = sign
                if name not in ("unseen", "wall", "empty", "floor") and (x, y) != (size // 2, size - 1):
                    things.append(
                        f"a {how}{IDX_TO_COLOR[colour]} {name}, {place(size - 1 - y, x - size // 2)}"
                    )
        rows[size - 1][size // 2] = "^"
        held = self._env.carrying
        load = f"a {held.color} {held.type}" if held else "nothing"
        return "\n".join(
            [
                f"Mission: {self.mission}.",
                *("".join(row) for row in rows),
                f"You see {'; '.join(things)}." if things else "You see nothing but walls and floor.",
                f"You carry {load}. Moves left: {self.moves_left}.",
            ]
        )

    def picture(self) -> Image:
        """Return the view as a PNG."""
        frame = self._env.get_frame(tile_size=TILE, agent_pov=True)
        surface = pygame.image.frombuffer(frame.tobytes(), (frame.shape[1], frame.shape[0]), "RGB")
        file = BytesIO()
        pygame.image.save(surface, file, "view.png")
        return Image(data=b64encode(file.getvalue()).decode())

    async def call(self, name: str, arguments: dict[str, JSON]) -> ToolResult:
        result = await super().call(name, arguments)
        return result.model_copy(update={"images": (self.picture(),)}) if name == LOOK.name else result

    def act(self, move: Move) -> float:
        action = ACTIONS.index(str(move["action"]))
        _, reward, reached, ended, _ = self._env.step(action)
        self._made.append(action)
        self._next = None
        self.moves_left -= 1
        self.succeeded = bool(reached) and float(reward) > 0
        self.over = bool(reached or ended) or not self.moves_left
        return float(reward)

    def policy(self) -> Move | None:
        """Return the bot's next action. The bot can get stuck: then there is none."""
        if self._next is None:
            if self._bot is None or len(self._made) > 1:  # it needs every action
                self._bot, self._made = BabyAIBot(self._env), []
            try:
                self._next = self._bot.replan(self._made.pop() if self._made else None)
            except (AssertionError, ValueError, IndexError):
                return None
        action = int(self._next)
        return {"action": ACTIONS[action]} if action < len(ACTIONS) else None

    def score(self) -> Score:
        return Score(name="missions", value=float(self.succeeded), unit="missions", baseline=0, par=1)

    async def snapshot(self) -> JSON:
        return {"seen": self.observe(), "mission": self.mission, "succeeded": self.succeeded}


class MiniGrid(StepBenchmark):
    name = "minigrid"
    summary = "BabyAI's instructions in MiniGrid: go to, open, pick up, put next to, unlock."
    families = (*LEVELS, *HELD_OUT)
    held_out = HELD_OUT
    numbers = {"train": range(200, 260), "dev": range(100, 110), "test": range(10), "private": range(10)}  # noqa: RUF012
    toolset = (ACT, LOOK)
    rules = RULES

    def playable(self, family: str, number: int) -> bool:
        return family in HELD_OUT or self.is_new(family, number)

    def make_game(self, family: str, number: int) -> MiniGridWorld:
        return MiniGridWorld(family, number)


BENCHMARK = MiniGrid()
