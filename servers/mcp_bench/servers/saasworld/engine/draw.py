"""All randomness of a task: a seeded stream of draws, and names that no other split uses."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from itertools import count
from typing import NamedTuple, TypeVar

from mcp_bench.servers.saasworld.pools import pools

T = TypeVar("T")

PRIVATE = "mailbox.example"
"""The domain of private addresses."""
MAX_TRIES = 20
"""Attempts to draw an unused name before longer names are made."""


class Person(NamedTuple):
    first: str
    last: str
    email: str

    @property
    def name(self) -> str:
        return f"{self.first} {self.last}"


class Company(NamedTuple):
    name: str
    domain: str


def address(first: str, last: str, domain: str) -> str:
    """Return the mail address of a person."""
    return f"{first}.{last}@{domain}".lower()


class Draw:
    """Seeded draws. They use `Random.random` only, whose sequence is stable across Python versions."""

    def __init__(self, seed: int, half: int, today: date) -> None:
        """Start the stream of draws.

        Args:
            half: the half of the word pools that names come from (0 or 1).
            today: the day that offsets count from.
        """
        self._random = random.Random(seed).random  # noqa: S311 - reproducible on purpose
        self.words = pools(half)
        self.today = today
        self._taken: set[str] = set()
        self._dates: dict[int, str] = {}

    def pick(self, options: Sequence[T]) -> T:
        return options[int(self._random() * len(options))]

    def sample(self, options: Sequence[T], size: int) -> list[T]:
        """Return `size` different options in random order."""
        rest = list(options)
        if size > len(rest):
            raise ValueError(f"cannot draw {size} of {len(rest)}")
        return [rest.pop(int(self._random() * len(rest))) for _ in range(size)]

    def chance(self, probability: float) -> bool:
        return self._random() < probability

    def integer(self, least: int, most: int) -> int:
        """Return an integer, both ends included."""
        return least + int(self._random() * (most - least + 1))

    def amount(self, least: int, most: int, step: int = 10) -> int:
        """Return a multiple of `step` in the range, for money and quantities."""
        return step * self.integer(-(-least // step), most // step)

    def day(self, first: int, last: int) -> str:
        """Return a date such as `2026-03-04`, between two offsets from today in days (negative: past)."""
        return self.date(self.integer(first, last))

    def date(self, offset: int) -> str:
        """Return the date `offset` days from today."""
        if offset not in self._dates:
            self._dates[offset] = (self.today + timedelta(days=offset)).isoformat()
        return self._dates[offset]

    def moment(self, first: int, last: int) -> str:
        """Return a time in working hours such as `2026-03-04T09:30:00Z`, on a day between two offsets."""
        return f"{self.day(first, last)}T{self.integer(8, 17):02d}:{self.pick(('00', '15', '30', '45'))}:00Z"

    def company(self, *, stem: str = "") -> Company:
        """Return a company that was not drawn before.

        Args:
            stem: first word of its name.
        """

        def make(wide: bool) -> str:
            name = f"{stem or self.pick(self.words.company_stems)} {self.pick(self.words.company_kinds)}"
            return f"{name} {self.city()}" if wide else name

        name = self.fresh(make)
        return Company(name, f"{name.replace(' ', '-').lower()}.example")

    def person(self, company: Company | None = None, *, last: str = "", first: str = "") -> Person:
        """Return a person whose name was not drawn before, at a company or with a private address.

        Args:
            last: family name to use, for relatives and look-alikes.
            first: given name to use. Give `first` or `last`, not both.
        """
        if first and last:
            raise ValueError("give first or last; the other one is drawn")

        def make(wide: bool) -> str:
            given, family = (
                first or self.pick(self.words.first_names),
                last or self.pick(self.words.last_names),
            )
            return f"{given} {family}-{self.pick(self.words.last_names)}" if wide else f"{given} {family}"

        given, _, family = self.fresh(make).partition(" ")
        return Person(given, family, address(given, family, company.domain if company else PRIVATE))

    def product(self) -> str:
        """Return a product name that was not drawn before."""

        def make(wide: bool) -> str:
            name = f"{self.pick(self.words.product_lines)} {self.pick(self.words.product_kinds)}"
            return f"{name} {self.integer(1, 9 if not wide else 9999)}00"

        return self.fresh(make)

    def fresh(self, make: Callable[[bool], str]) -> str:
        """Return a name that was not drawn before; a longer one (wide) when short names are scarce."""
        for attempt in count():
            name = make(attempt > MAX_TRIES)
            if name not in self._taken:
                break
        self._taken.add(name)
        return name

    def project(self) -> str:
        """Return a project name. There are only about thirty per half of the pools."""
        return self.pick(self.words.projects)

    def city(self) -> str:
        return self.pick(self.words.cities)

    def phone(self) -> str:
        return f"+1 {self.integer(201, 989)} 555 {self.integer(0, 9999):04d}"
