"""A question to a database of SQLite."""

from __future__ import annotations

import random
from collections import defaultdict

from mcp_bench.servers.codeworld.case import Case, Check, answer_check

CITIES = ("Lund", "Ghent", "Turin", "Porto", "Graz", "Brno")
GOODS = ("lamp", "chair", "desk", "shelf", "rug", "clock")


def make(rng: random.Random, level: int) -> Case:
    """Level 1: one table. Level 2: a join with a sum. Level 3: a join of three, where cancelled orders count
    nothing and the newest price of a good applies."""
    people = [(number, f"person{number}", rng.choice(CITIES)) for number in range(1, 41)]
    orders = [
        (number, rng.randrange(1, 41), rng.choice(("paid", "open", "cancelled"))) for number in range(1, 201)
    ]
    lines = [
        (order, rng.choice(GOODS), rng.randrange(1, 9))
        for order, _, _ in orders
        for _ in range(rng.randrange(1, 4))
    ]
    prices = [
        (good, day, rng.randrange(5, 90))
        for good in GOODS
        for day in ("2026-01-01", "2026-02-01", "2026-03-01")
    ]
    script = "".join(
        f"CREATE TABLE {name} ({columns});\n"
        + "".join(f"INSERT INTO {name} VALUES {row!r};\n" for row in rows)
        for name, columns, rows in (
            ("people", "id INTEGER PRIMARY KEY, name TEXT, city TEXT", people),
            ("orders", "id INTEGER PRIMARY KEY, person INTEGER, state TEXT", orders),
            ("lines", "order_id INTEGER, good TEXT, amount INTEGER", lines),
            ("prices", "good TEXT, since TEXT, price INTEGER", prices),
        )
    )
    city, state, good = rng.choice(CITIES), rng.choice(("paid", "open")), rng.choice(GOODS)
    home = {number: town for number, _, town in people}
    by = {number: (person, how) for number, person, how in orders}
    if level == 1:
        question = f"How many orders are in the state {state}?"
        found = str(sum(how == state for _, _, how in orders))
        query = f"SELECT count(*) FROM orders WHERE state = '{state}'"
    elif level == 2:
        question = f"How many pieces of the good {good} did people from {city} order in all, whatever the order's state?"
        found = str(
            sum(amount for order, what, amount in lines if what == good and home[by[order][0]] == city)
        )
        query = (
            "SELECT total(amount) FROM lines JOIN orders ON order_id = orders.id JOIN people ON person = people.id "
            f"WHERE good = '{good}' AND city = '{city}'"
        )
    else:
        newest = {name: price for name, _, price in prices}  # the last one in the list is the newest
        spent: defaultdict[int, int] = defaultdict(int)
        for order, what, amount in lines:
            if by[order][1] != "cancelled":
                spent[by[order][0]] += amount * newest[what]
        best = min(spent, key=lambda person: (-spent[person], person))
        question = (
            "Which person has ordered goods of the largest value? Cancelled orders do not count, and every line is worth its amount "
            "times the newest price of its good. Of persons with the same value, take the one with the lowest id. Write the "
            "name, a space and the value."
        )
        found = f"person{best} {spent[best]}"
        query = (
            "SELECT name || ' ' || sum(amount * price) FROM lines JOIN orders ON order_id = orders.id "
            "JOIN people ON person = people.id JOIN prices ON prices.good = lines.good "
            "WHERE state != 'cancelled' AND since = '2026-03-01' GROUP BY people.id "
            "ORDER BY sum(amount * price) DESC, people.id LIMIT 1"
        )
    code = f"import sqlite3\nfound = sqlite3.connect('shop.db').execute({query!r}).fetchone()[0]\nprint(int(found) if isinstance(found, float) else found)"
    return Case(
        prompt=(
            f"/work/shop.db is a database of SQLite (Python's sqlite3 module reads it). {question} Write the answer into "
            "/work/answer.txt, and nothing else. Leave the database as it is."
        ),
        files={"shop.sql": script},
        checks=(
            answer_check(found),
            Check(
                "the database has all orders",
                "python3 -I -c \"import sqlite3; print(sqlite3.connect('/work/shop.db')"
                ".execute('SELECT count(*) FROM orders').fetchone()[0])\"",
                "200",
                guards=True,
            ),
        ),
        solution=f"cd /work && python3 - > answer.txt <<'PY'\n{code}\nPY",
        setup="python3 -c \"import sqlite3; d = sqlite3.connect('shop.db'); d.executescript(open('shop.sql').read()); "
        'd.commit()" && rm shop.sql',
    )
