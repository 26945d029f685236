"""A table with labels to learn from, and one without: predict its labels well enough."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence

from mcp_bench.servers.codeworld.case import Case, Check

TRAINED, ASKED = 600, 300
"""Rows with a label, and rows to predict."""
WORDS = {
    "parcel": ("parcel", "courier", "delivery", "address", "doorstep", "tracking", "delayed", "warehouse"),
    "refund": ("refund", "charged", "invoice", "twice", "card", "money", "bank", "amount"),
    "login": ("password", "account", "login", "reset", "locked", "email", "code", "screen"),
    "fault": ("broken", "cracked", "noise", "battery", "screen", "stopped", "button", "warranty"),
}
FILLER = (
    "the",
    "my",
    "please",
    "since",
    "order",
    "hello",
    "again",
    "still",
    "today",
    "problem",
    "help",
    "was",
)
NEIGHBOURS = """\
import csv, math
from collections import Counter
train = list(csv.DictReader(open("train.csv")))
test = list(csv.DictReader(open("test.csv")))
names = [name for name in test[0] if name != "id"]
spread = {}
for name in names:
    values = [float(row[name]) for row in train]
    mean = sum(values) / len(values)
    spread[name] = (mean, math.sqrt(sum((v - mean) ** 2 for v in values) / len(values)) or 1.0)
def point(row):
    return [(float(row[name]) - spread[name][0]) / spread[name][1] for name in names]
known = [(point(row), row["label"]) for row in train]
with open("predictions.csv", "w") as file:
    print("id,label", file=file)
    for row in test:
        here = point(row)
        near = sorted((math.dist(here, there), label) for there, label in known)[:15]
        print(row["id"] + "," + Counter(label for _, label in near).most_common(1)[0][0], file=file)
"""
BAYES = """\
import csv, math
from collections import Counter, defaultdict
train = list(csv.DictReader(open("train.csv")))
words, labels = defaultdict(Counter), Counter()
for row in train:
    labels[row["label"]] += 1
    words[row["label"]].update(row["text"].split())
size = len({word for counted in words.values() for word in counted})
def score(label, text):
    total = sum(words[label].values()) + size
    return math.log(labels[label]) + sum(math.log((words[label][word] + 1) / total) for word in text.split())
with open("predictions.csv", "w") as file:
    print("id,label", file=file)
    for row in csv.DictReader(open("test.csv")):
        print(row["id"] + "," + max(labels, key=lambda label: score(label, row["text"])), file=file)
"""
Row = tuple[Sequence[str], str]
"""Features and label."""


def make(rng: random.Random, level: int) -> Case:
    """Level 1: two groups that a line divides. Level 2: short texts of four kinds. Level 3: a disc in a square, so that
    no line divides the groups."""
    draw = (_line, _text, _disc)[level - 1]
    columns, rows = draw(rng, TRAINED + ASKED)
    trained, asked = rows[:TRAINED], rows[TRAINED:]
    labels = {str(number): label for number, (_, label) in enumerate(asked, start=1)}
    wanted = (0.9, 0.8, 0.88)[level - 1]
    header = ",".join(columns)
    return Case(
        prompt=(
            f"/work/train.csv has {TRAINED} rows with the columns {header} and label, /work/test.csv has {ASKED} rows with id and {header}. "
            f"Learn from the first to predict the labels of the second: at least {wanted:.0%} of them must be right. Write "
            "/work/predictions.csv with the header `id,label` and a line for each row of test.csv, in the same order. Only "
            "Python's standard library is there."
        ),
        files={
            "train.csv": f"{header},label\n"
            + "".join(",".join((*cells, label)) + "\n" for cells, label in trained),
            "test.csv": f"id,{header}\n"
            + "".join(",".join((str(at), *cells)) + "\n" for at, (cells, _) in enumerate(asked, start=1)),
        },
        checks=(
            Check(
                f"at least {wanted:.0%} of the labels are right",
                "head -c 50000 /work/predictions.csv",
                "",
                judge=lambda printed: _fault(printed, labels, wanted),
            ),
        ),
        solution=f"cd /work && python3 - <<'PY'\n{BAYES if level == 2 else NEIGHBOURS}PY",
    )


def _fault(printed: str, labels: dict[str, str], wanted: float) -> str:
    lines = [line.strip().split(",") for line in printed.splitlines()]
    if lines[:1] != [["id", "label"]] or [line[0] for line in lines[1:]] != list(labels):
        return "the header or the ids are not those that were asked for"
    if any(len(line) != 2 for line in lines):
        return "a line does not have two cells"
    share = sum(labels[number] == label.strip() for number, label in lines[1:]) / len(labels)
    return "" if share >= wanted else f"{share:.1%} are right"


def _balanced(rows: list[Row], rng: random.Random, count: int) -> list[Row]:
    """Return rows of which no label has more than half, so that one label alone scores low."""
    most = Counter(label for _, label in rows)
    each = min(most.values())
    seen: Counter[str] = Counter()
    kept = []
    for row in rows:
        seen[row[1]] += 1
        if seen[row[1]] <= each:
            kept.append(row)
    rng.shuffle(kept)
    return kept[:count]


def _line(rng: random.Random, count: int) -> tuple[tuple[str, ...], list[Row]]:
    """Points of four columns on the two sides of a plane, with a gap and 3 % wrong labels."""
    weights = [rng.choice((-1, 1)) * rng.uniform(0.5, 1.5) for _ in range(4)]
    scales = [rng.choice((1, 10, 100)) for _ in range(4)]
    names = rng.sample(("red", "blue"), 2)
    size = math.hypot(*weights)
    rows: list[Row] = []
    while len(rows) < 3 * count:
        at = [rng.gauss(0, 1) for _ in range(4)]
        side = sum(map(float.__mul__, weights, at)) / size
        if abs(side) < 0.4:
            continue
        label = names[(side > 0) != (rng.random() < 0.03)]
        rows.append(([f"{value * scale:.3f}" for value, scale in zip(at, scales, strict=True)], label))
    return ("a", "b", "c", "d"), _balanced(rows, rng, count)


def _disc(rng: random.Random, count: int) -> tuple[tuple[str, ...], list[Row]]:
    """Points inside and around an ellipse, with 3 % wrong labels and one column of noise."""
    x, y = rng.uniform(-0.15, 0.15), rng.uniform(-0.15, 0.15)
    wide, high = rng.uniform(0.55, 0.7), rng.uniform(0.55, 0.7)
    names = rng.sample(("inside", "outside"), 2)
    rows: list[Row] = []
    while len(rows) < 4 * count:
        at = (rng.uniform(-1, 1), rng.uniform(-1, 1), rng.uniform(-0.2, 0.2))
        far = math.hypot((at[0] - x) / wide, (at[1] - y) / high)
        if 0.85 < far < 1.15:
            continue
        rows.append(([f"{value:.4f}" for value in at], names[(far > 1) != (rng.random() < 0.03)]))
    return ("x", "y", "z"), _balanced(rows, rng, count)


def _text(rng: random.Random, count: int) -> tuple[tuple[str, ...], list[Row]]:
    """Short texts, of which a few words depend on the kind; words of another kind stray in."""
    kinds = sorted(WORDS)
    renamed = dict(zip(kinds, rng.sample(("north", "south", "east", "west"), 4), strict=True))
    rows: list[Row] = []
    for _ in range(2 * count):
        kind = rng.choice(kinds)
        own = [rng.choice(WORDS[kind]) for _ in range(rng.randrange(2, 5))]
        stray = [rng.choice(WORDS[rng.choice(kinds)]) for _ in range(rng.randrange(0, 2))]
        words = [*own, *stray, *(rng.choice(FILLER) for _ in range(rng.randrange(3, 8)))]
        rng.shuffle(words)
        rows.append(([" ".join(words)], renamed[kind]))
    return ("text",), _balanced(rows, rng, count)
