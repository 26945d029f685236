"""Files to rename and sort by rules."""

from __future__ import annotations

import random

from mcp_bench.servers.codeworld.case import Case, Check

KINDS = {"jpg": "pictures", "png": "pictures", "txt": "notes", "md": "notes", "csv": "tables"}
WORDS = ("summer", "report", "draft", "house", "budget", "trip", "plan", "garden", "final", "old")


def make(rng: random.Random, level: int) -> Case:
    """Level 1: into folders by ending. Level 2: names in lower case with dashes, too. Level 3: folders by
    year, too."""
    files: dict[str, str] = {}
    moved: dict[str, str] = {}
    while len(files) < 10 * level:
        words = rng.sample(WORDS, 2)
        ending = rng.choice(list(KINDS))
        year = rng.randrange(2019, 2026)
        name = f"{rng.choice((' ', '_', ' - ')).join(words).title()} {year}-{len(files):02}.{ending}"
        if level < 2:
            name = name.replace(" ", "_").replace("_-_", "_")
        text = f"{rng.getrandbits(48):x}"
        new = name
        if level >= 2:
            new = name.replace(" - ", " ").replace("_", " ").replace(" ", "-").lower()
        folder = KINDS[ending] + (f"/{year}" if level >= 3 else "")
        files[f"inbox/{name}"] = text + "\n"
        moved[f"{folder}/{new}"] = text
    rules = [
        "move all files of /work/inbox into the folders /work/pictures (.jpg, .png), /work/notes (.txt, .md) and "
        "/work/tables (.csv)"
    ]
    if level >= 2:
        rules.append(
            "file names become lower case; each run of spaces, underscores and dashes between words becomes one dash"
        )
    if level >= 3:
        rules.append(
            "inside them, there is a folder for the year in the file's name, such as /work/notes/2021"
        )
    expected = "\n".join(f"{path} {text}" for path, text in sorted(moved.items()))
    dashes = "s/[ _-]+/-/g" if level >= 2 else "s/$^//"
    lower = "tr A-Z a-z" if level >= 2 else "cat"
    below = "/$(echo \"$name\" | grep -oE '20[0-9]{2}' | head -1)" if level >= 3 else ""
    return Case(
        prompt="Sort files:\n- "
        + "\n- ".join(rules)
        + "\nThe inbox is empty in the end, and no content changes.",
        files=files,
        checks=(
            Check(
                "every file is where it belongs",
                "cd /work && for f in $(find pictures notes tables -type f 2>/dev/null | LC_ALL=C sort); do "
                'echo "$f $(cat "$f")"; done',
                expected,
            ),
            Check("the inbox is empty", "find /work/inbox -type f | wc -l", "0"),
        ),
        solution=(
            'cd /work/inbox && for name in *; do case "$name" in *.jpg|*.png) kind=pictures;; *.txt|*.md) kind=notes;; '
            f'*) kind=tables;; esac; to="/work/$kind{below}"; mkdir -p "$to"; '
            f'new=$(echo "$name" | sed -E \'{dashes}\' | {lower}); mv "$name" "$to/$new"; done'
        ),
    )
