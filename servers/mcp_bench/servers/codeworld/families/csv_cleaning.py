"""A table to clean by rules."""

from __future__ import annotations

import random

from mcp_bench.servers.codeworld.case import Case, Check

FIRST = ("Ada", "Bo", "Chidi", "Dana", "Emre", "Femi", "Gita", "Hana", "Ivo", "Juno")
LAST = ("Okafor", "Lindqvist", "Moreau", "Tanaka", "Petrov", "Silva", "Novak", "Haddad")
CODE = """\
import csv
seen, rows = set(), []
for row in csv.DictReader(open("people.csv", newline="")):
    mail = row["email"].strip().lower()
    if "@" not in mail or mail in seen:
        continue
    seen.add(mail)
    amount = row["amount"].strip().replace(",", "")
    if {level} >= 2:
        amount = f"{{float(amount or 0):.2f}}"
    day = row["joined"].strip()
    if {level} >= 3 and "/" in day:
        d, m, y = day.split("/")
        day = f"{{y}}-{{m}}-{{d}}"
    rows.append([" ".join(row["name"].split()), mail, amount, day])
rows.sort(key=lambda row: row[1])
with open("clean.csv", "w", newline="") as file:
    writer = csv.writer(file, lineterminator="\\n")
    writer.writerow(["name", "email", "amount", "joined"])
    writer.writerows(rows)
"""


def make(rng: random.Random, level: int) -> Case:
    """Level 1: addresses. Level 2: amounts, too. Level 3: dates, too."""
    raw, clean = [], {}
    for number in range(30 * level):
        name = [rng.choice(FIRST), rng.choice(LAST)]
        mail = f"{name[0]}.{name[1]}{number}@example.org".lower()
        cents = rng.randrange(100, 900_000)
        day = (rng.randrange(2015, 2026), rng.randrange(1, 13), rng.randrange(1, 28))
        iso = f"{day[0]}-{day[1]:02}-{day[2]:02}"
        written = f"{day[2]:02}/{day[1]:02}/{day[0]}" if level == 3 and rng.random() < 0.4 else iso
        whole = f"{cents / 100:,.2f}" if level > 1 and rng.random() < 0.4 else f"{cents / 100:.2f}"
        shown = mail.upper() if rng.random() < 0.3 else mail
        rows = [
            (rng.choice(("  ", " ")).join(name), f" {shown}" if rng.random() < 0.2 else shown, whole, written)
        ]
        if rng.random() < 0.15:
            rows.append((rows[0][0], mail, "1.00", iso))  # a later row of the same person
        raw += rows
        clean[mail] = (" ".join(name), mail, f"{cents / 100:.2f}", iso)
        if rng.random() < 0.1:
            raw.append((" ".join(name), f"{name[0].lower()} at example", "5.00", iso))
    text = "name,email,amount,joined\n" + "".join(
        ",".join(f'"{cell}"' if "," in cell else cell for cell in row) + "\n" for row in raw
    )
    result = "name,email,amount,joined\n" + "".join(",".join(clean[mail]) + "\n" for mail in sorted(clean))
    rules = [
        "names have one space between words",
        "e-mail addresses are in lower case, without spaces around them",
        "rows without an @ in the address are left out",
        "of rows with the same address, the first one is kept",
        "rows are sorted by address",
    ]
    if level >= 2:
        rules.append("amounts have two decimals and no thousands separator")
    if level >= 3:
        rules.append("dates are written YYYY-MM-DD (some are DD/MM/YYYY)")
    return Case(
        prompt=(
            "Clean /work/people.csv into /work/clean.csv, with the same columns and header:\n- "
            + "\n- ".join(rules)
            + "\nLeave people.csv as it is. Quote cells only where CSV demands it."
        ),
        files={"people.csv": text},
        checks=(
            Check("clean.csv is right", "tr -d '\\r' < /work/clean.csv", result),
            Check("people.csv is unchanged", "cat /work/people.csv", text, guards=True),
        ),
        solution=f"cd /work && python3 - <<'PY'\n{CODE.format(level=level)}PY",
    )
