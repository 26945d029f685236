"""TextArena's games (Guertler et al., 2025): puzzles, and board games against an opponent.

The scripted opponent wins at once if it can, and else moves at random, from the game's own chance. Board
games begin after some random moves, so that splits share no first board. Games without a first board of their
own are in `test` alone. In the split `versus`, a model plays the opponent. Only a worker imports this module.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from mcp_bench.servers.adapters.text_arena_players import MOVE as MOVES_SAID
from mcp_bench.servers.adapters.text_arena_world import GAMES, MOVE, OPPONENT, TextArenaWorld
from mcp_bench.servers.contracts import JSON, ChatMessage, Reference, Task, ToolResult
from mcp_bench.servers.host import NO_HOST, Host
from mcp_bench.servers.secret import PRIVATE
from mcp_bench.servers.worlds.step_world import LOOK, Game, StepBenchmark, StepWorld

RULES = "Play with the tool `move`. The rules follow.\n\n"
HELD_OUT = ("guess-the-number", "mastermind", "minesweeper", "nim")
VERSUS = "versus"
MODELS = {f"{family}-{VERSUS}": family for family, setup in GAMES.items() if setup.moves}
"""The families of the split `versus`, and the games that they are."""
VERSUS_GAMES = range(10)
ONLY_A_MOVE = re.compile(r"\[\s*(?:col\s*)?[0-9]{1,3}\s*,?\s*(?:[0-9]{1,3}\s*)?\]", re.IGNORECASE)
"""A move of a board game. The opponent's model reads an agent's moves, so they have room for no words."""
NO_MOVE = "This is no move of the game: say it in the format that the rules name, such as [3]."
NOT_MADE = (
    "This move was not made: the call before it ended while the opponent was to move. Its answer follows."
)
LONGEST = 200
"""Characters of what an opponent says instead of a move, which the game shows to the agent."""
TO_THE_OPPONENT = (
    "You play a game against somebody else. The rules follow, and after each of their moves what you \
see. Answer with your move, in the format that the rules name, and with nothing after it."
)


class VersusWorld(TextArenaWorld):
    """A board game in which a model is player 1. It reads what the game shows to this player."""

    def __init__(self, family: str, number: int, host: Host) -> None:
        super().__init__(MODELS[family], number)
        self._host = host
        self._talk = [ChatMessage(role="system", content=TO_THE_OPPONENT)]

    async def call(self, name: str, arguments: dict[str, JSON]) -> ToolResult:
        if name == LOOK.name or self.over:
            return await super().call(name, arguments)
        if self.opponents_turn:  # a call was cancelled while the model was asked
            return await self._answered(over=False, note=f"{NOT_MADE}\n")
        moves = ONLY_A_MOVE.findall(str(arguments["action"]))
        if not moves:
            return ToolResult(text=NO_MOVE, is_error=True)
        with self.own_chance():
            over = self.step(moves[-1])
        return await self._answered(over=over)

    async def _answered(self, *, over: bool, note: str = "") -> ToolResult:
        """Let the opponent move, and return what the agent sees then."""
        # a move that the rules do not allow: the game says so, and asks again or ends
        while not over and self.opponents_turn:
            action = await self._asked()
            with self.own_chance():
                over = self.step(action)
        reward, seen = self.settle(over=over), self._seen()
        return seen.model_copy(update={"text": note + seen.text, "reward": reward, "done": self.over})

    async def _asked(self) -> str:
        """Return the opponent's move: what it says in brackets last. The agent does not read its reasons."""
        self.heard(OPPONENT)
        shown = "\n".join(self.theirs).strip() or "It is your move."
        talk = [*self._talk, ChatMessage(role="user", content=shown)]
        answer = await self._host.ask("opponent", talk)
        self._talk, self.theirs = [*talk, answer], []  # not before: asking can be cancelled
        moves = MOVES_SAID.findall(answer.content)
        return moves[-1] if moves else answer.content[:LONGEST]


class TextArena(StepBenchmark):
    name = "textarena"
    version = "2"
    summary = "TextArena's games: puzzles for one player, and board games against an opponent."
    families = tuple(GAMES)
    held_out = HELD_OUT
    numbers = {"train": range(200, 300), "dev": range(100, 110), "test": range(10), "private": range(10)}  # noqa: RUF012
    private_splits = (PRIVATE, VERSUS)
    """Those that `all` is without; `versus` needs a model."""
    toolset = (MOVE, LOOK)

    def ids(self, split: str) -> Iterator[str]:
        if split != VERSUS:
            return super().ids(split)
        return (f"{family}.{number}" for number in VERSUS_GAMES for family in MODELS)

    def prepare_split(self, split: str) -> str | None:
        return None if split == VERSUS else super().prepare_split(split)

    def game_of(self, task_id: str) -> Game | None:
        family, _, number = task_id.rpartition(".")
        if family not in MODELS:
            return super().game_of(task_id)
        known = number in map(str, VERSUS_GAMES)
        return Game(family, VERSUS, int(number)) if known else None

    def playable(self, family: str, number: int) -> bool:
        return family in HELD_OUT or self.is_new(family, number)

    def make_task(self, task_id: str) -> Task | None:
        task = super().make_task(task_id)
        versus = task is not None and task.split == VERSUS
        return task.model_copy(update={"needs": ("model:opponent",)}) if task and versus else task

    def make_game(self, family: str, number: int) -> TextArenaWorld:
        return TextArenaWorld(MODELS.get(family, family), number)

    def make_world(self, task_id: str, seed: int, host: Host = NO_HOST) -> StepWorld:
        game = self.game_of(task_id)
        if game is None or game.split != VERSUS:
            return super().make_world(task_id, seed)
        return VersusWorld(game.family, game.seed, host)

    def reference(self, task_id: str) -> Reference | None:
        """Return what the policy does; None against a model, whose moves nobody knows beforehand."""
        game = self.game_of(task_id)
        return None if game is not None and game.split == VERSUS else super().reference(task_id)

    def make_rules(self, family: str) -> str:
        return RULES + self.make_game(family, 0).rules


BENCHMARK = TextArena()
