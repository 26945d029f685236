"""Dockerfiles, as far as a sandbox can follow them without a container engine.

Format: https://docs.docker.com/reference/dockerfile/
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from posixpath import join, normpath

IGNORED = ("CMD", "ENTRYPOINT", "EXPOSE", "LABEL", "MAINTAINER", "HEALTHCHECK", "STOPSIGNAL", "SHELL")
"""They say how a container starts. A sandbox starts a shell."""
STARTED_WITH = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
}
"""Variables that every sandbox has."""
VARIABLE = re.compile(r"\\\$|\$(?:\{(\w+)(?::-([^}]*))?\}|(\w+))")
PAIR = re.compile(r"""(\w+)=("(?:[^"\\]|\\.)*"|'[^']*'|(?:\\.|\S)*)""")
NETWORK = re.compile(
    r"\b((?:apt-get|apt|apk|dnf|yum|microdnf)(?:\s+-\S+)*\s+(?:install|update|upgrade|add)"
    r"|(?:pip3?|pipx|uv|npm|yarn|pnpm|cargo|gem|conda|mamba|go)(?:\s+(?:-\S+|pip|tool|-m))*\s+"
    r"(?:install|add|sync|get|ci|create)|curl|wget|git\s+clone)\b"
)


class UnsupportedError(Exception):
    """A Dockerfile needs a container engine; the text says why."""


@dataclass(frozen=True)
class Step:
    """An instruction that changes files."""

    kind: str
    """`RUN`, `COPY`, `ADD` or `WORKDIR`."""
    text: str
    workdir: str
    env: Mapping[str, str]


@dataclass(frozen=True)
class Image:
    """What a Dockerfile says."""

    base: str
    steps: tuple[Step, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    workdir: str = "/"


def parsed(text: str, *, built: bool = False) -> Image:
    """Return what a Dockerfile says.

    Args:
        built: the image is there: what a stage makes need not be followed, and the last stage counts.

    Raises:
        UnsupportedError: it needs what a sandbox cannot do.
    """
    base, workdir, env, args, steps = "", "/", dict[str, str](), dict[str, str](), list[Step]()
    for number, word, rest in instructions(text):
        known = {**STARTED_WITH, **args, **env}
        match word:
            case "FROM":
                if base and not built:
                    raise UnsupportedError(f"Dockerfile, line {number}: it has more than one stage")
                workdir, env = "/", {}
                words = re.sub(r"--platform=\S+\s+", "", rest).split()
                base = expanded(words[0], known) if words else ""
                if not (base or built):  # it needs a build argument, which nobody gives here
                    raise UnsupportedError(f"Dockerfile, line {number}: FROM {rest} names no image")
            case "ARG":
                # a name without a value keeps the one that it has, or has none
                args |= {name: word_value(value, known) for name, value in PAIR.findall(rest)}
            case "ENV":
                env |= {name: word_value(value, known) for name, value in pairs(rest)}
            case "WORKDIR":
                workdir = normpath(join(workdir, unquoted(expanded(rest, known))))
                steps.append(Step(word, workdir, "/", dict(env)))
            case "RUN" | "COPY" | "ADD" if built:
                pass
            case "RUN":
                steps.append(Step(word, run_command(rest, number), workdir, known))
            case "COPY" | "ADD":
                check_copy(rest, number)
                steps.append(Step(word, expanded(rest, known), workdir, known))
            case "USER" if rest.strip() in ("root", "0", "0:0", "root:root"):
                pass
            case _ if word not in IGNORED:
                raise UnsupportedError(f"Dockerfile, line {number}: {word}")
    if not (base or built):
        raise UnsupportedError("Dockerfile: it has no FROM")
    return Image(base, tuple(steps), env, workdir)


def instructions(text: str) -> list[tuple[int, str, str]]:
    """Return line number, name and argument of each instruction, with continued lines joined."""
    found, begun, start = list[tuple[int, str, str]](), "", 0
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("#") or not line.strip():  # also within a continued instruction
            continue
        start = start if begun else number
        begun += line.rstrip()
        if begun.endswith("\\"):
            begun = begun[:-1] + " "
            continue
        word, *rest = begun.split(maxsplit=1)
        found.append((start, word.upper(), "".join(rest).rstrip()))
        begun = ""
    return found


def run_command(rest: str, number: int) -> str:
    """Return a RUN instruction as a shell command.

    Raises:
        UnsupportedError: it needs a network, or is a here-document.
    """
    command = re.sub(r"^(?:--\S+\s+)+", "", rest)
    if command.startswith("<<"):
        raise UnsupportedError(f"Dockerfile, line {number}: RUN with a here-document")
    if command.startswith("["):
        with suppress(ValueError, TypeError):
            command = shlex.join(json.loads(command))
    if found := NETWORK.search(command):
        raise UnsupportedError(f"Dockerfile, line {number}: RUN needs a network ({found[0]})")
    return command


def check_copy(rest: str, number: int) -> None:
    """Check a COPY or ADD instruction.

    Raises:
        UnsupportedError: its source is another stage, the network or a here-document.
    """
    if "--from=" in rest:
        raise UnsupportedError(f"Dockerfile, line {number}: COPY --from")
    if re.search(r"(?:^|\s)(?:https?://|git@)", rest):
        raise UnsupportedError(f"Dockerfile, line {number}: ADD needs a network")
    if "<<" in rest:
        raise UnsupportedError(f"Dockerfile, line {number}: COPY with a here-document")


def copy_words(text: str) -> tuple[dict[str, str], list[str], str]:
    """Return options, sources and destination of a COPY or ADD instruction."""
    options = dict(re.findall(r"--(\w+)=(\S+)", text))
    text = re.sub(r"--\w+(?:=\S+)?\s+", "", text)
    words = [str(word) for word in json.loads(text)] if text.startswith("[") else shlex.split(text)
    return options, words[:-1], words[-1]


def pairs(rest: str) -> list[tuple[str, str]]:
    if re.match(r"\w+=", rest):
        return PAIR.findall(rest)
    name, _, value = rest.partition(" ")
    return [(name, value)]


def unquoted(text: str) -> str:
    text = text.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


def word_value(text: str, known: Mapping[str, str]) -> str:
    """Return the value of a word, as a shell would: in single quotes nothing is replaced."""
    text = text.strip()
    if text[:1] == "'" == text[-1:] and len(text) > 1:
        return text[1:-1]
    found = expanded(text, known)
    return re.sub(r"\\(.)", r"\1", found) if found[:1] != '"' else unquoted(found)


def expanded(text: str, known: Mapping[str, str]) -> str:
    """Return a text with its variables replaced: those that are unknown or empty by their default, if any."""

    def value(found: re.Match[str]) -> str:
        if found[0].startswith("\\"):
            return "$"
        return known.get(found[1] or found[3]) or found[2] or ""

    return VARIABLE.sub(value, text)
