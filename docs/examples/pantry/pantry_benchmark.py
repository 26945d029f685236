"""The benchmark pantry for mcp-bench: order what a dish needs and the pantry lacks."""

from random import Random
from typing import Annotated, Literal

from pydantic import Field

from mcp_bench.servers.sdk import (
    AssertionResult,
    Reference,
    RefusedError,
    SimpleBenchmark,
    SimpleWorld,
    Task,
    ToolCall,
    tool,
)

DISHES = {
    "pancakes": {"flour": 100, "milk": 150, "eggs": 1},
    "custard": {"milk": 125, "sugar": 25, "eggs": 2},
    "omelette": {"eggs": 2, "butter": 10, "chives": 5},
    "risotto": {"rice": 80, "broth": 250, "butter": 15, "cheese": 25},
}
"""Ingredients of one portion."""
MENU = {"train": ["custard", "pancakes"], "dev": ["omelette"], "test": ["risotto"]}
"""A split has dishes of its own, so it shares no solutions with the others."""
SHOP = {item for portion in DISHES.values() for item in portion}
SPLITS = {"train": range(60), "dev": range(60, 80), "test": range(80, 100)}


class Evening:
    """The dish, the portions and the stock of an evening. They depend on its number only."""

    def __init__(self, number: int) -> None:
        chance = Random(number)
        self.number = number
        self.split = next(name for name, numbers in SPLITS.items() if number in numbers)
        self.dish = chance.choice(MENU[self.split])
        self.portions = chance.randint(2, 9)
        needed = {item: amount * self.portions for item, amount in DISHES[self.dish].items()}
        self.stock = {item: chance.choice([0, amount // 2, amount]) for item, amount in needed.items()}
        self.stock[chance.choice(sorted(needed))] = 0  # something is always missing
        self.missing = {item: n - self.stock[item] for item, n in needed.items() if n > self.stock[item]}


EVENINGS = {f"{evening.dish}.{evening.number}": evening for evening in map(Evening, range(100))}


def listed(amounts: dict[str, int]) -> str:
    return "\n".join(f"{item}: {amount}" for item, amount in amounts.items())


class PantryWorld(SimpleWorld):
    """One attempt. Calls change `orders`, and only `orders` is graded and stored."""

    def __init__(self, evening: Evening) -> None:
        self.evening = evening
        self.orders: dict[str, int] = {}

    @tool
    def recipe(self, dish: Literal["pancakes", "custard", "omelette", "risotto"]) -> str:
        """Say what one portion of a dish takes."""
        return listed(DISHES[dish])

    @tool
    def stock(self) -> str:
        """List what is in the pantry."""
        return listed(self.evening.stock)

    @tool
    def order(self, item: str, amount: Annotated[int, Field(ge=1)]) -> str:
        """Order something from the shop."""
        if item not in SHOP:
            raise RefusedError(f"the shop has no {item}")
        self.orders[item] = self.orders.get(item, 0) + amount
        return f"ordered {amount} of {item}"

    def checks(self, answer: str) -> list[AssertionResult]:
        wanted = self.evening.missing
        enough = [AssertionResult(name=item, passed=self.orders.get(item) == n) for item, n in wanted.items()]
        surplus = self.orders.keys() - wanted.keys()
        return [*enough, AssertionResult(name="nothing else", passed=not surplus, kind="guardrail")]


class Pantry(SimpleBenchmark):
    name = "pantry"
    summary = "Order what a dish needs and the pantry lacks."
    toolset = PantryWorld.toolset

    def ids(self, split: str) -> list[str]:
        return [task_id for task_id, evening in EVENINGS.items() if evening.split == split]

    def make_task(self, task_id: str) -> Task | None:
        if (evening := EVENINGS.get(task_id)) is None:
            return None
        where = f"Evening {evening.number}: {evening.dish} for {evening.portions}."
        prompt = f"{where} Order what is missing, as much as is missing."
        return Task(id=task_id, benchmark=self.name, prompt=prompt, split=evening.split, domain="kitchen")

    def make_world(self, task_id: str, seed: int) -> PantryWorld:
        return PantryWorld(EVENINGS[task_id])

    def reference(self, task_id: str) -> Reference:
        evening = EVENINGS[task_id]
        calls = [ToolCall(name="recipe", arguments={"dish": evening.dish}), ToolCall(name="stock")]
        for item, amount in evening.missing.items():
            calls.append(ToolCall(name="order", arguments={"item": item, "amount": amount}))
        return Reference(calls=tuple(calls), answer="It is ordered.")


BENCHMARK = Pantry()
