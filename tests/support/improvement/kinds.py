"""A small improvement task of each kind but `call` (`small_task.py`): baseline, reference and scorer."""

from __future__ import annotations

from pathlib import Path

HEAD = """name: small
family: small
summary: A small task.
splits: {train: 2}
budget: {runs: 4}
"""
FIT_PREDICT = {
    "task.yaml": HEAD
    + """target: [target.py]
experiment: {kind: fit_predict, function: solve, seconds: 10, memory_mib: 200}
metric: {name: error}
settings: {rows: 60}
""",
    "scorer.py": """def data(rng, part, settings):
    xs = [rng.uniform(0, 10) for _ in range(2 * settings["rows"])]
    ys = [3 * x + 1 + rng.gauss(0, 0.5) for x in xs]
    rows = settings["rows"]
    return [xs[:rows], ys[:rows], xs[rows:]], ys[rows:]


def loss(label, prediction):
    return abs(label - prediction)
""",
    "target/target.py": """def solve(xs, ys, new):
    return [sum(ys) / len(ys)] * len(new)
""",
    "reference/target.py": """def solve(xs, ys, new):
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    slope = sum((a - x) * (b - y) for a, b in zip(xs, ys)) / sum((a - x) ** 2 for a in xs)
    return [y + slope * (one - x) for one in new]
""",
}
CODEC = {
    "task.yaml": HEAD
    + """target: [target.py]
experiment: {kind: codec, seconds: 10, memory_mib: 200}
metric: {name: size, unit: bits/byte, scale: log}
settings: {files: 8}
""",
    "scorer.py": """def files(rng, part, settings):
    found = []
    for _ in range(settings["files"]):
        start, step = rng.randrange(10**6), rng.randrange(1, 1000)
        found.append(" ".join(str(start + step * place) for place in range(300)).encode())
    return found
""",
    "target/target.py": """import zlib


def compress(data):
    return zlib.compress(data)


def decompress(data):
    return zlib.decompress(data)
""",
    "reference/target.py": """def compress(data):
    first, second, *rest = map(int, data.split())
    return f"{first} {second} {len(rest) + 2}".encode()


def decompress(data):
    first, second, count = map(int, data.split())
    return " ".join(str(first + (second - first) * place) for place in range(count)).encode()
""",
}
LOCKSTEP = {
    "task.yaml": HEAD
    + """target: [target.py]
experiment: {kind: lockstep, seconds: 10, fit_seconds: 1, memory_mib: 200}
metric: {name: loss, unit: bits/byte}
settings: {words: 400}
""",
    "scorer.py": """WORDS = ["one ", "two ", "three ", "four ", "five "]


def texts(rng, part, settings):
    def text():
        return "".join(rng.choices(WORDS, k=settings["words"])).encode()

    return text(), [text()[:40] for _ in range(8)]
""",
    "target/target.py": """import struct


def fit(text, seconds, seed):
    pass


def start(n):
    return struct.pack("<256f", *[1.0] * 256) * n


def step(seen):
    return start(len(seen))
""",
    "reference/target.py": """import struct

counts = [[0.01] * 256 for _ in range(256)]


def fit(text, seconds, seed):
    for before, after in zip(text, text[1:]):
        counts[before][after] += 1


def start(n):
    return step(b" " * n)


def step(seen):
    return b"".join(struct.pack("<256f", *counts[byte]) for byte in seen)
""",
}
TEXT = {
    "task.yaml": HEAD
    + """target: [prompt.txt]
max_bytes: 900
experiment: {kind: text, seconds: 10, memory_mib: 200}
metric: {name: accuracy, direction: maximize}
settings: {cases: 60}
""",
    "scorer.py": """WORDS = ["red", "green", "blue", "black", "white", "pink", "brown", "grey", "gold", "plum"]


def cases(rng, part, settings):
    drawn = [rng.choice(WORDS) for _ in range(settings["cases"])]
    return [(f"{word}{rng.randrange(10**6)}", word[::-1]) for word in drawn]


def loss(label, answer):
    return float(answer == label)
""",
    # a stand-in for a model: it answers with the line whose beginning the input has
    "model.py": """def answer(prompt):
    *lines, last = prompt.splitlines()
    known = [line.split("=") for line in lines if "=" in line]
    return next((right for left, right in known if left and last.startswith(left)), "")
""",
    "target/prompt.txt": "red=der\ngreen=neerg\n{input}",
    "reference/prompt.txt": "red=der\ngreen=neerg\nblue=eulb\nblack=kcalb\nwhite=etihw\npink=knip\nbrown=nworb\n"
    "grey=yerg\ngold=dlog\nplum=mulp\n{input}",
}
SQL = {
    "task.yaml": HEAD
    + """target: [queries.sql]
experiment: {kind: sql, seconds: 30, memory_mib: 200}
metric: {name: time, unit: s, scale: log, pairs: [9, 15]}
settings: {rows: 6000}
""",
    "scorer.py": """def data(rng, part, settings):
    rows = "".join(
        f"INSERT INTO sales VALUES ({rng.randrange(500)}, {rng.randrange(1000)});" for _ in range(settings["rows"])
    )
    return {"data.sql": f"CREATE TABLE sales(shop, price); BEGIN; {rows} COMMIT;".encode()}


def question(rng, part, settings):
    return [["shop", {"shop": rng.randrange(500)}] for _ in range(20)]
""",
    "target/queries.sql": """-- setup

-- query shop
SELECT price FROM sales WHERE shop = :shop ORDER BY price
""",
    "reference/queries.sql": """-- setup
CREATE INDEX by_shop ON sales(shop, price);

-- query shop
SELECT price FROM sales WHERE shop = :shop ORDER BY price
""",
}
KINDS = {"fit_predict": FIT_PREDICT, "codec": CODEC, "lockstep": LOCKSTEP, "text": TEXT, "sql": SQL}


def write_kind(place: Path, kind: str) -> Path:
    """Write the folder of a kind's task and return it."""
    folder = place / "small"
    for name, text in {"README.md": "A small task.", **KINDS[kind]}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder
