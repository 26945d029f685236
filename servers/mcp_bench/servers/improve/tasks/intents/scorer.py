"""Messages of customers, put together from phrases. A fifth of the phrases comes in each part alone."""

from random import Random
from typing import Any

THINGS = ["kettle", "lamp", "desk", "jacket", "bicycle", "phone", "tent", "printer", "sofa", "camera"]
PHRASES = {
    "refund": [
        "I want my money back for the {thing}",
        "please return the {price} euros that I paid for this {thing}",
        "I sent the {thing} back, when do you pay me the {price} euros?",
        "the {thing} is not what I ordered, so give me back what it cost",
        "cancel the order of the {thing} and reimburse me",
    ],
    "delivery": [
        "where is the {thing} that I ordered {days} days ago?",
        "the parcel with my {thing} has not arrived yet",
        "the tracking of my {thing} has not moved for {days} days",
        "can the {thing} be brought to another address?",
        "the driver left without handing over the {thing}",
    ],
    "invoice": [
        "I need a bill for the {thing} with our tax number",
        "you charged my card {price} euros twice for one {thing}",
        "the receipt for the {thing} shows a wrong amount",
        "please send the invoice of the {thing} to our accountants",
        "why does the statement list {price} euros for the {thing}?",
    ],
    "password": [
        "I cannot log in to see my order of a {thing}",
        "the link to reset my password has expired since {days} days",
        "my account is locked after {days} wrong attempts",
        "the code for signing in never comes to my {thing}",
        "somebody else uses my login to buy a {thing}",
    ],
    "damage": [
        "the {thing} came with a broken part",
        "there is a scratch all over the {thing}",
        "after {days} days the {thing} stopped working",
        "the box was crushed and the {thing} inside is bent",
        "my {thing} smells of smoke when it is switched on",
    ],
    "appointment": [
        "can the technician for the {thing} come on another day?",
        "I have to move the visit about the {thing} by {days} days",
        "at what hour will someone look at my {thing}?",
        "nobody showed up yesterday to install the {thing}",
        "please book a time to have the {thing} measured",
    ],
}
BEFORE = ["", "", "Hello, ", "Hi there, ", "Dear team, ", "Good morning, "]
AFTER = ["", "", " Thank you.", " Regards, Kim", " It is urgent.", " This is the second time that I write."]


def cases(rng: Random, part: str, settings: dict[str, Any]) -> list[tuple[str, str]]:
    phrases = slice(0, 4) if part == "search" else slice(1, 5)
    return [message(rng, phrases) for _ in range(settings["cases"])]


def message(rng: Random, phrases: slice) -> tuple[str, str]:
    queue = rng.choice(sorted(PHRASES))
    body = rng.choice(PHRASES[queue][phrases]).format(
        thing=rng.choice(THINGS), price=rng.randint(10, 900), days=rng.randint(2, 14)
    )
    return rng.choice(BEFORE) + body + rng.choice(AFTER), queue


def loss(label: str, answer: Any) -> float:
    """1 where the answer is right: the metric is the accuracy, which is maximized."""
    return float(isinstance(answer, str) and answer.strip().lower() == label)
