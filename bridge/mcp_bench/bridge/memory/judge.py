"""A model that reads attempts: asked, limited and recorded as the judge of a world is."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any

from mcp_bench.bridge.roles.episode_host import EpisodeHost
from mcp_bench.bridge.roles.models import Roles, roles_of
from mcp_bench.recorder.files.replacement import writing
from mcp_bench.recorder.store.asked import Asked
from mcp_bench.recorder.trajectory import Usage
from mcp_bench.servers.contracts import ChatMessage
from mcp_bench.servers.errors import BenchError, HostError, WrongUseError
from mcp_bench.servers.home import home

ASKED = ".asked.jsonl"
"""The file beside what was made from the answers: each question and answer."""


class NoJudgeError(BenchError):
    """The model gave no answer; the text says why."""


class Judge:
    """Asks the model, and keeps each answer at once. Use it as an async context manager."""

    def __init__(self, roles: Roles, kept: Path) -> None:
        """Set up without a connection.

        Args:
            roles: the model, and what it may use.
            kept: see `answers_kept`. What it answers already is not asked again.
        """
        self.asked: list[Asked] = []
        self.model = roles.models["judge"].model
        self._kept = kept
        _cut_torn_line(kept)
        self._known = {_question(one): one for one in _read(kept) if one.answer is not None}
        self._host = EpisodeHost(roles, seed=0, store=self._store)

    async def __aenter__(self) -> Judge:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._host.aclose()

    async def ask(self, system: str, question: str) -> str:
        """Return the model's answer.

        Raises:
            NoJudgeError: it gave none, or a limit is reached.
            StorageError: its answer cannot be kept.
        """
        messages = [ChatMessage(role="system", content=system), ChatMessage(role="user", content=question)]
        known = self._known.get((system, question))
        if known is not None and known.answer is not None:
            self.asked.append(known)
            return str(known.answer["content"])
        try:
            return (await self._host.ask("judge", messages)).content
        except HostError as error:
            failure = self._host.take_failure()
            raise NoJudgeError(failure.detail if failure else str(error)) from error

    @property
    def cost(self) -> float:
        """US dollars, as far as they are known."""
        usages = [one.usage for one in self.asked if one.usage is not None]
        return sum(usage.cost_usd or 0.0 for usage in usages)

    @property
    def tokens(self) -> int:
        """All tokens that the endpoint reported."""
        usages = [one.usage for one in self.asked if one.usage is not None]
        return sum((usage.input_tokens or 0) + (usage.output_tokens or 0) for usage in usages)

    def _store(self, asked: Asked) -> None:
        self.asked.append(asked)
        if asked.answer is not None:
            with writing(self._kept), self._kept.open("a", encoding="utf-8") as file:
                file.write(asked_lines([asked]))


def judge_of(options: Mapping[str, Any], environ: Mapping[str, str]) -> Roles | None:
    """Return the model that options name, and what it may use; None if they name none.

    Raises:
        WrongUseError: as for `roles_of`; or there are options about a model, and none is named.
    """
    if options["judge_model"] is not None:
        return roles_of(options, environ)
    for name, option in (
        ("judge_base_url", "--judge-base-url"),
        ("role_limits", "--role-limit"),
        ("prices", "--prices"),
    ):
        if options[name]:
            raise WrongUseError(
                f"{option} is about a model that reads the attempts, and none is named: add --judge-model M, "
                f"or leave out {option}"
            )
    return None


@contextmanager
def answers_kept(what: str, options: Mapping[str, Any], subject: Sequence[object]) -> Iterator[Path]:
    """Yield a file for the answers to `what` until they are used, which is when this ends without an error.

    Answers are paid for. So the same command, after a failure or Ctrl-C, goes on with those that it got.

    Args:
        what: the command.
        options: the model and its endpoint.
        subject: what it is asked about, such as the runs. Commands about others have files of their own.

    Raises:
        NoJudgeError: the model stopped answering; the text says what is kept.
        StorageError: the home cannot be written.
    """
    of = json.dumps([options["judge_model"], options["judge_base_url"], *subject], default=str)
    folder = home() / "judge"
    with writing(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    kept = folder / f"{what}-{sha256(of.encode()).hexdigest()[:12]}.jsonl"
    try:
        yield kept
    except NoJudgeError as error:
        count = len(_read(kept))
        if not count:
            raise
        raise NoJudgeError(
            f"{error}. Its {count} answers are kept: the same command goes on with them"
        ) from error
    kept.unlink(missing_ok=True)


def asked_lines(asked: Sequence[Asked]) -> str:
    """Return questions and answers as JSON lines."""
    return "".join(json.dumps(_plain(one), ensure_ascii=False) + "\n" for one in asked)


def json_in(answer: str, begin: str, end: str) -> Any:
    """Return the JSON value in an answer from the first `begin` to the last `end`, or None."""
    first, last = answer.find(begin), answer.rfind(end)
    try:
        return json.loads(answer[first : last + 1]) if 0 <= first < last else None
    except (ValueError, RecursionError):
        return None


def _cut_torn_line(kept: Path) -> None:
    """Cut off a last line without an end, left by a kill: else the next answer would be appended to it."""
    written = kept.read_bytes() if kept.is_file() else b""
    whole = written.rfind(b"\n") + 1
    if whole < len(written):
        os.truncate(kept, whole)


def _read(kept: Path) -> list[Asked]:
    """Return what was asked; a line that was cut off is left out."""
    found = []
    # not splitlines: an answer can have other ends of lines in it, such as U+2028
    for line in kept.read_bytes().split(b"\n") if kept.is_file() else ():
        with suppress(ValueError, TypeError, KeyError):
            row = json.loads(line)
            usage = row["usage"] and Usage.model_validate(row["usage"])
            found.append(Asked(**{**row, "usage": usage}))
    return found


def _question(asked: Asked) -> tuple[str, ...]:
    return tuple(str(message["content"]) for message in asked.messages)


def _plain(asked: Asked) -> dict[str, Any]:
    usage = asked.usage.model_dump(exclude_none=True) if asked.usage else None
    return {**asdict(asked), "usage": usage}
