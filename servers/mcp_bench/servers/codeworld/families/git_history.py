"""A git repository to repair."""

from __future__ import annotations

import random

from mcp_bench.servers.codeworld.case import Case, Check

START = (
    "git init -q -b main . && git config user.name Ada && git config user.email ada@example.org && "
    "export GIT_AUTHOR_DATE='2026-01-05T10:00:00Z' GIT_COMMITTER_DATE='2026-01-05T10:00:00Z'"
)
PLAIN = (
    "cd /work && export GIT_CONFIG_GLOBAL=/dev/null && rm -rf .git/config .git/config.worktree .git/commondir && "
    r"printf '[core]\nrepositoryformatversion = 0\nbare = false\nhooksPath = /dev/null\n' >.git/config"
)
"""How each check begins: settings of a repository can name programs that git starts."""


def make(rng: random.Random, level: int) -> Case:
    """Level 1: a lost commit. Level 2: a commit on the wrong branch. Level 3: a secret in an old commit."""
    values = rng.sample(range(1000, 9999), 6)
    commits = [
        f"echo {value} > part{at}.txt && git add -A && git commit -q -m 'Add part {at}'"
        for at, value in enumerate(values[:4])
    ]
    if level == 1:
        setup = [START, *commits, "git reset -q --hard HEAD~2"]
        prompt = (
            "In the repository /work, somebody ran `git reset --hard` and lost two commits of the branch main. Bring "
            "them back: main must have all four parts again, with the same commits."
        )
        solution = "cd /work && git reset -q --hard $(git reflog --format=%H | sed -n 2p)"
        checks = [
            Check(
                "main has the four commits",
                f"{PLAIN} && git log --format=%s main | cat",
                "\n".join(f"Add part {at}" for at in (3, 2, 1, 0)),
            ),
            Check(
                "the parts are there",
                f"{PLAIN} && git status --porcelain && cat part*.txt",
                "\n".join(map(str, values[:4])),
            ),
        ]
    elif level == 2:
        setup = [START, *commits[:2], "git branch feature", *commits[2:4]]
        prompt = (
            "In the repository /work, the last two commits were made on main, and belong on the branch feature alone. "
            "Move them: feature gets both, main goes back to where it was before them. In the end, main is checked out "
            "and the working tree is clean."
        )
        solution = "cd /work && git branch -f feature main && git reset -q --hard HEAD~2"
        checks = [
            Check(
                "main is as before", f"{PLAIN} && git log --format=%s main | cat", "Add part 1\nAdd part 0"
            ),
            Check(
                "feature has them",
                f"{PLAIN} && git log --format=%s feature | cat",
                "\n".join(f"Add part {at}" for at in (3, 2, 1, 0)),
            ),
            Check(
                "main is checked out and clean",
                f"{PLAIN} && git rev-parse --abbrev-ref HEAD && git status --porcelain",
                "main",
                guards=True,
            ),
        ]
    else:
        secret = f"token-{rng.getrandbits(64):016x}"
        commits[1] += f" && echo {secret} > .secret && git add -A && git commit -q --amend --no-edit"
        setup = [START, *commits]
        prompt = (
            "In the repository /work, the second commit of main contains a file .secret with a password. Remove the file "
            "from the whole history of main. The other files, and the messages and order of all commits, stay. Nothing "
            "in the repository may have the password any more, not even objects that no branch reaches."
        )
        solution = (
            "cd /work && export FILTER_BRANCH_SQUELCH_WARNING=1 && git filter-branch -f --index-filter 'git rm -q --cached --ignore-unmatch .secret' main "
            ">/dev/null 2>&1; rm -rf .git/refs/original && git reflog expire --expire=now --all && git gc -q --prune=now"
        )
        checks = [
            Check(
                "the password is nowhere",
                f"{PLAIN} && git cat-file --batch-all-objects --batch-check='%(objectname) %(objecttype)' | "
                f"grep blob | cut -d' ' -f1 | xargs -n1 git cat-file -p | grep -c {secret}; ls .secret 2>/dev/null",
                "0",
            ),
            Check(
                "the messages stay",
                f"{PLAIN} && git log --format=%s main | cat",
                "\n".join(f"Add part {at}" for at in (3, 2, 1, 0)),
                guards=True,
            ),
            Check(
                "the files stay", "cd /work && cat part*.txt", "\n".join(map(str, values[:4])), guards=True
            ),
        ]
    return Case(prompt=prompt, files={}, checks=tuple(checks), solution=solution, setup=" && ".join(setup))
