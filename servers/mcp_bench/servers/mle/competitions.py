"""The three competitions. Their data are generated from chance, so nobody has seen them."""

from __future__ import annotations

import math
import random

from mcp_bench.servers.mle.competition import Competition, Data, Metric, auc, log_loss, rmse

TRAINED, ASKED = 1200, 600
LINEAR = """\
import csv, math
def read(path):
    return list(csv.DictReader(open(path)))
def solve(a, b):
    n = len(b)
    for i in range(n):
        p = max(range(i, n), key=lambda r: abs(a[r][i]))
        a[i], a[p], b[i], b[p] = a[p], a[i], b[p], b[i]
        for r in range(i + 1, n):
            f = a[r][i] / a[i][i]
            for c in range(i, n):
                a[r][c] -= f * a[i][c]
            b[r] -= f * b[i]
    x = [0.0] * n
    for i in reversed(range(n)):
        x[i] = (b[i] - sum(a[i][c] * x[c] for c in range(i + 1, n))) / a[i][i]
    return x
def least(rows, values, weights):
    n = len(rows[0])
    a = [[1e-3 * (i == j) for j in range(n)] for i in range(n)]
    b = [0.0] * n
    for row, y, w in zip(rows, values, weights):
        for i in range(n):
            b[i] += w * row[i] * y
            for j in range(n):
                a[i][j] += w * row[i] * row[j]
    return solve(a, b)
def dot(x, y):
    return sum(map(float.__mul__, x, y))
def logistic(rows, labels):
    w = [0.0] * len(rows[0])
    for _ in range(6):
        p = [1 / (1 + math.exp(-max(-30, min(30, dot(w, row))))) for row in rows]
        s = [max(q * (1 - q), 1e-4) for q in p]
        z = [dot(w, row) + (y - q) / v for row, y, q, v in zip(rows, labels, p, s)]
        w = least(rows, z, s)
    return w
def write(target, test, predict):
    with open("submission.csv", "w") as file:
        print("id," + target, file=file)
        for row in test:
            print(f"{row['id']},{predict(row):.6f}", file=file)
train, test = read("train.csv"), read("test.csv")
"""
DELIVERY = (
    LINEAR
    + """\
def features(row):
    km, hour, load = float(row["km"]), float(row["hour"]), float(row["parcels"])
    kinds = [float(row["area"] == name) for name in ("centre", "suburb", "country")]
    day = [float(row["weekday"] == name) for name in ("mon", "tue", "wed", "thu", "fri", "sat")]
    rush = [math.exp(-((hour - h) / 2.0) ** 2) for h in (8, 17)]
    return [*kinds, *day, *(km * k for k in kinds), *rush, *(km * r for r in rush), load, load * load]
w = least([features(r) for r in train], [float(r["minutes"]) for r in train], [1.0] * len(train))
write("minutes", test, lambda row: dot(w, features(row)))
"""
)
SENSORS = (
    LINEAR
    + """\
def features(row):
    x = [float(row[name]) for name in ("heat", "spin", "volts", "age")]
    return [1.0, *x, *(x[i] * x[j] for i in range(4) for j in range(i, 4))]
w = logistic([features(r) for r in train], [float(r["fault"]) for r in train])
write("fault", test, lambda row: 1 / (1 + math.exp(-max(-30, min(30, dot(w, features(row)))))))
"""
)
REVIEWS = (
    LINEAR
    + """\
from collections import Counter
counts = Counter(word for r in train for word in set(r["text"].split()))
words = sorted(word for word, n in counts.items() if n >= 10)
def features(row):
    here = Counter(row["text"].split())
    return [1.0, *(float(here[word]) for word in words)]
w = logistic([features(r) for r in train], [float(r["liked"]) for r in train])
write("liked", test, lambda row: dot(w, features(row)))
"""
)


def delivery(rng: random.Random) -> Data:
    """Minutes of a delivery: by distance, area, weekday, rush hours and load, with noise."""
    speed = {
        name: rng.uniform(*span)
        for name, span in (("centre", (4, 6)), ("suburb", (2, 3)), ("country", (1, 2)))
    }
    day = {name: rng.uniform(-4, 6) for name in ("mon", "tue", "wed", "thu", "fri", "sat")}
    rush, weight = rng.uniform(1, 2.5), rng.uniform(0.05, 0.15)
    rows, truth, best = [], [], []
    for _ in range(TRAINED + ASKED):
        km, hour, load = rng.uniform(0.5, 20), rng.uniform(6, 20), rng.randrange(1, 15)
        area, weekday = rng.choice(sorted(speed)), rng.choice(list(day))
        busy = math.exp(-(((hour - 8) / 2) ** 2)) + math.exp(-(((hour - 17) / 2) ** 2))
        mean = 10 + day[weekday] + km * (speed[area] + rush * busy) + weight * load * load
        rows.append((f"{km:.2f}", f"{hour:.2f}", str(load), area, weekday))
        best.append(mean)
        truth.append(round(mean + rng.gauss(0, 5), 2))
    return Data(("km", "hour", "parcels", "area", "weekday"), tuple(rows), tuple(truth), tuple(best), TRAINED)


def sensors(rng: random.Random) -> Data:
    """Whether a machine fails: the probability follows from a square of its readings."""
    signs = [rng.choice((-1, 1)) for _ in range(4)]
    size = [rng.uniform(0.8, 1.6) for _ in range(4)]
    rows, truth, best = [], [], []
    for _ in range(TRAINED + ASKED):
        x = [rng.gauss(0, 1) for _ in range(4)]
        lean = signs[0] * size[0] * x[0] + signs[1] * size[1] * x[1] * x[2] + size[2] * (x[3] ** 2 - 1)
        chance = 1 / (1 + math.exp(-1.5 * lean))
        rows.append(tuple(f"{value:.4f}" for value in x))
        best.append(chance)
        truth.append(float(rng.random() < chance))
    return Data(("heat", "spin", "volts", "age"), tuple(rows), tuple(truth), tuple(best), TRAINED)


def reviews(rng: random.Random) -> Data:
    """Whether a text is of somebody content: made words lean to one side, and some texts say `not`."""
    made = [
        "".join(
            rng.choices("bcdfgklmnprst", k=1)
            + rng.choices("aeiou", k=1)
            + rng.choices("lmnrst", k=1)
            + rng.choices("aeiou", k=1)
        )
        for _ in range(60)
    ]
    lean = {word: rng.gauss(0, 1.1) for word in made}
    words = list(lean)
    rows, truth, best = [], [], []
    for _ in range(TRAINED + ASKED):
        text = rng.choices(words, k=rng.randrange(5, 14))
        chance = 1 / (1 + math.exp(-sum(lean[word] for word in text)))
        rows.append((" ".join(text),))
        best.append(chance)
        truth.append(float(rng.random() < chance))
    return Data(("text",), tuple(rows), tuple(truth), tuple(best), TRAINED)


COMPETITIONS = {
    "delivery-times": Competition(
        "How long does a delivery take?",
        "Each row is a delivery; `minutes` is how long it took.",
        "minutes",
        Metric("RMSE", "lower", "min", rmse, -1e6, 1e6),
        delivery,
        DELIVERY,
    ),
    "machine-faults": Competition(
        "Does the machine fail?",
        "Each row has the readings of a machine; `fault` is 1 if it failed. Predict the probability.",
        "fault",
        Metric("log loss", "lower", "nats", log_loss, 0, 1),
        sensors,
        SENSORS,
    ),
    "reviews": Competition(
        "Was the customer content?",
        "Each row is a review in a language that you do not know; `liked` is 1 if its "
        "author was content. Predict a number that is the higher, the likelier that is.",
        "liked",
        Metric("ROC AUC", "higher", "", auc, -1e6, 1e6),
        reviews,
        REVIEWS,
    ),
}
