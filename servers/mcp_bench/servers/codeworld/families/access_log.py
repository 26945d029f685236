"""A question about a web server's access log."""

from __future__ import annotations

import random
from collections import Counter

from mcp_bench.servers.codeworld.case import Case, answer_check

PATHS = (
    "/",
    "/login",
    "/cart",
    "/checkout",
    "/api/orders",
    "/api/users",
    "/search",
    "/static/app.js",
    "/health",
)
AGENTS = ("Mozilla/5.0", "curl/8.5", "Googlebot/2.1", "python-requests/2.32")


def make(rng: random.Random, level: int) -> Case:
    """Level 1: one count. Level 2: who has most of something. Level 3: a sum over a window of time, with
    lines that are no requests in between."""
    hosts = [f"10.{rng.randrange(256)}.{rng.randrange(256)}.{rng.randrange(1, 255)}" for _ in range(12)]
    day = f"{rng.randrange(1, 28):02}/Mar/2026"
    rows = []
    for second in sorted(rng.sample(range(86_400), 300 * level)):
        clock = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
        status = rng.choices((200, 301, 404, 500, 503), (70, 8, 12, 6, 4))[0]
        rows.append((rng.choice(hosts), clock, rng.choice(PATHS), status, rng.randrange(120, 90_000)))
    lines = [
        f'{host} - - [{day}:{clock} +0000] "GET {path} HTTP/1.1" {status} {size} "-" "{rng.choice(AGENTS)}"'
        for host, clock, path, status, size in rows
    ]
    if level == 1:
        status = rng.choice((404, 500))
        question = f"How many requests got the status {status}?"
        found = str(sum(row[3] == status for row in rows))
        code = f"print(sum(f' {status} ' in line.split('\"')[2] for line in open('access.log')))"
    elif level == 2:
        best = Counter(row[0] for row in rows if row[3] >= 500).most_common()
        found = min(host for host, number in best if number == best[0][1])
        question = (
            "Which client address got the most answers with a status of 500 or above? If several did, name the one "
            "that sorts first as a text."
        )
        code = (
            "from collections import Counter\n"
            "c = Counter(l.split()[0] for l in open('access.log') if int(l.split('\"')[2].split()[0]) >= 500)\n"
            "m = max(c.values())\nprint(min(h for h, n in c.items() if n == m))"
        )
    else:
        start = rng.randrange(2, 18)
        path = rng.choice(PATHS[1:7])
        chosen = [
            row for row in rows if row[2] == path and start <= int(row[1][:2]) < start + 4 and row[3] == 200
        ]
        found = str(sum(row[4] for row in chosen))
        question = (
            f"How many bytes in all were sent for {path} with status 200, from {start:02}:00:00 up to, and not "
            f"including, {start + 4:02}:00:00?"
        )
        for _ in range(40):
            lines.insert(
                rng.randrange(len(lines)), f"[notice] worker {rng.randrange(9)}: GET {path} 200 reloaded"
            )
        code = (
            "import re\ntotal = 0\nfor line in open('access.log'):\n"
            '    m = re.match(r\'\\S+ - - \\[[^:]+:(\\d\\d)\\S+ \\S+\\] "GET (\\S+) [^"]+" (\\d+) (\\d+)\', line)\n'
            f"    if m and m[2] == {path!r} and m[3] == '200' and {start} <= int(m[1]) < {start + 4}:\n"
            "        total += int(m[4])\nprint(total)"
        )
    return Case(
        prompt=f"{question} The log is /work/access.log. Write the answer into /work/answer.txt, and nothing else.",
        files={"access.log": "\n".join(lines) + "\n"},
        checks=(answer_check(found),),
        solution=f"cd /work && python3 - > answer.txt <<'PY'\n{code}\nPY",
    )
