"""A model that solves the fixture benchmark's task `talk`, turn by turn of its user."""

from collections.abc import Iterable, Mapping
from typing import Any

from tests.support.model_endpoint.script import Script, ScriptedCall, Step

REMINDER = (
    'it may differ from the "Today\'s date" mentioned earlier in the conversation startup context. '
    "</system-reminder>"
)
"""Qwen Code puts a reminder of its own before the latest message. The longest prompt in a request counts."""
PRESS = Step((ScriptedCall("press"),))
ASKED = "How often shall I press it? I wait for your answer."
TWICE = "It is pressed twice now, as you wished. Is there anything else to press?"
DONE = "Three times."
TALK = [
    Script("press the button.", (Step(text=ASKED),)),
    Script(f"{ASKED} Two more, please.", (PRESS, PRESS, Step(text=TWICE))),
    Script(f"{TWICE} And one more.", (PRESS, PRESS, PRESS, Step(text=DONE))),
]
"""Each turn is known by its user's message; the steps count the results of all turns."""
TALK += [
    Script(f"{REMINDER} Two more, please.", TALK[1].steps),
    Script(f"{REMINDER} And one more.", TALK[2].steps),
]


def finish(answer: str) -> Step:
    return Step((ScriptedCall("finish", {"answer": answer}),))


ACTIONS = [finish(ASKED), PRESS, PRESS, finish(TWICE), PRESS, finish(DONE)]
ONE_ACTION = [
    Script("press the button.", tuple(ACTIONS[:1])),
    Script("press the button. Two more, please.", tuple(ACTIONS[:4])),
    Script("press the button. Two more, please. And one more.", tuple(ACTIONS)),
]
"""The same for a model that may only call tools."""
SPOKEN = [
    ("user", "Task talk: press the button."),
    ("assistant", ASKED),
    ("user", "Two more, please."),
    ("assistant", TWICE),
    ("user", "And one more."),
    ("assistant", DONE),
]
"""The conversation without the tools and the instructions."""


def spoken(messages: Iterable[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return what assistant and user said to each other."""
    return [
        (one["role"], one["content"])
        for one in messages
        if one["role"] in ("assistant", "user") and one.get("content")
    ]
