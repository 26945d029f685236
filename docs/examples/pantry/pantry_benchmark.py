"""The benchmark pantry for mcp-bench: order what a dish needs and the pantry lacks."""

from collections.abc import Iterator, Sequence
from itertools import islice
from random import Random

from mcp_bench.servers.sdk import (
    JSON,
    AssertionResult,
    Grade,
    Reference,
    Replay,
    Task,
    ToolCall,
    ToolResult,
    ToolSpec,
    UnknownNameError,
    partial_credit,
)

DISHES = {
    "pancakes": {"flour": 100, "milk": 150, "eggs": 1},
    "custard": {"milk": 125, "sugar": 25, "eggs": 2},
    "risotto": {"rice": 80, "broth": 250, "butter": 15, "cheese": 25},
}
"""Ingredients of one portion."""
HELD_OUT = "risotto"
"""Only the test split has this dish, so it shares no solutions with the others."""
SHOP = {item for portion in DISHES.values() for item in portion}
SPLITS = {"train": range(60), "dev": range(60, 80), "test": range(80, 100)}
NOTHING: dict[str, JSON] = {"type": "object", "properties": {}, "additionalProperties": False}
DISH: dict[str, JSON] = {
    "type": "object",
    "properties": {"dish": {"enum": sorted(DISHES)}},
    "required": ["dish"],
    "additionalProperties": False,
}
ORDER: dict[str, JSON] = {
    "type": "object",
    "properties": {"item": {"type": "string"}, "amount": {"type": "integer", "minimum": 1}},
    "required": ["item", "amount"],
    "additionalProperties": False,
}
TOOLS = (
    ToolSpec(name="recipe", description="Say what one portion of a dish takes.", input_schema=DISH),
    ToolSpec(name="stock", description="List what is in the pantry.", input_schema=NOTHING),
    ToolSpec(name="order", description="Order something from the shop.", input_schema=ORDER),
)


class Evening:
    """The dish, the portions and the stock of an evening. They depend on its number only."""

    def __init__(self, number: int) -> None:
        chance = Random(number)
        self.dish = HELD_OUT if number in SPLITS["test"] else chance.choice(sorted({*DISHES} - {HELD_OUT}))
        self.portions = chance.randint(2, 9)
        needed = {item: amount * self.portions for item, amount in DISHES[self.dish].items()}
        self.stock = {item: chance.choice([0, amount // 2, amount]) for item, amount in needed.items()}
        self.stock[chance.choice(sorted(needed))] = 0  # something is always missing
        lacking = {item: amount - self.stock[item] for item, amount in needed.items()}
        self.missing = {item: amount for item, amount in lacking.items() if amount}


def listed(amounts: dict[str, int]) -> str:
    return "\n".join(f"{item}: {amount}" for item, amount in amounts.items())


class PantryWorld:
    """One attempt. Calls change `orders`, and only `orders` is graded."""

    def __init__(self, evening: Evening) -> None:
        self.evening = evening
        self.orders: dict[str, int] = {}

    def tools(self) -> Sequence[ToolSpec]:
        return TOOLS

    async def call(self, name: str, arguments: dict[str, JSON]) -> ToolResult:
        match name, arguments:
            case "recipe", {"dish": str(dish)}:
                return ToolResult(text=listed(DISHES[dish]))
            case "stock", _:
                return ToolResult(text=listed(self.evening.stock))
            case "order", {"item": str(item), "amount": int() | float() as amount}:  # 2.0 is an integer, too
                if item not in SHOP:
                    return ToolResult(text=f"the shop has no {item}", is_error=True)
                self.orders[item] = self.orders.get(item, 0) + int(amount)
                return ToolResult(text=f"ordered {int(amount)} of {item}")
        raise AssertionError(f"a call that the schemas do not allow: {name} {arguments}")

    async def grade(self, answer: str) -> Grade:
        wanted = self.evening.missing
        checks = [
            *(AssertionResult(name=item, passed=self.orders.get(item) == n) for item, n in wanted.items()),
            AssertionResult(
                name="nothing else", passed=self.orders.keys() <= wanted.keys(), kind="guardrail"
            ),
        ]
        strict = all(check.passed for check in checks)
        credit = partial_credit(checks, strict=strict)
        return Grade(partial=credit, strict=strict, assertions=tuple(checks), grader_version="1")

    async def snapshot(self) -> JSON:
        return {"orders": dict(self.orders)}

    async def close(self) -> None:
        pass


class Pantry:
    name = "pantry"
    version = "1"
    summary = "Order what a dish needs and the pantry lacks."
    replay: Replay = "exact"
    replay_ignores: tuple[str, ...] = ()

    def tasks(self, split: str | None = None, limit: int | None = None) -> Iterator[Task]:
        if split not in (None, "all", *SPLITS):
            raise UnknownNameError("split", split, ["all", *SPLITS])
        wanted = SPLITS if split == "all" else [split or "test"]
        return islice((self._task(name, number) for name in wanted for number in SPLITS[name]), limit)

    def task(self, task_id: str) -> Task:
        known = {task.id: task for task in self.tasks("all")}
        if task_id not in known:
            raise UnknownNameError("task", task_id, known)
        return known[task_id]

    async def open(self, task_id: str, *, seed: int = 0) -> PantryWorld:
        return PantryWorld(self._evening(task_id))

    def reference(self, task_id: str) -> Reference:
        evening = self._evening(task_id)
        looked = [ToolCall(name="recipe", arguments={"dish": evening.dish}), ToolCall(name="stock")]
        orders = [
            ToolCall(name="order", arguments={"item": item, "amount": amount})
            for item, amount in evening.missing.items()
        ]
        return Reference(calls=(*looked, *orders), answer="It is ordered.")

    def tools(self) -> Sequence[ToolSpec]:
        return TOOLS

    async def aclose(self) -> None:
        pass

    def _task(self, split: str, number: int) -> Task:
        evening = Evening(number)
        dish, guests = evening.dish, evening.portions
        prompt = f"Evening {number}: {dish} for {guests}. Order what is missing, as much as is missing."
        return Task(id=f"{dish}.{number}", benchmark=self.name, prompt=prompt, split=split, domain="kitchen")

    def _evening(self, task_id: str) -> Evening:
        return Evening(int(self.task(task_id).id.rpartition(".")[2]))


BENCHMARK = Pantry()
