"""A model that reads attempts: asked, limited and recorded as the judge of a world is."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from mcp_bench.bridge.roles.episode_host import EpisodeHost
from mcp_bench.bridge.roles.models import Roles
from mcp_bench.recorder.store.asked import Asked
from mcp_bench.servers.contracts import ChatMessage
from mcp_bench.servers.errors import BenchError, HostError

ASKED = ".asked.jsonl"
"""The file beside what was made from the answers: each question and answer."""


class NoJudgeError(BenchError):
    """The model gave no answer; the text says why."""


class Judge:
    """Asks the model, and keeps each question. Use it as an async context manager."""

    def __init__(self, roles: Roles) -> None:
        self.asked: list[Asked] = []
        self.model = roles.models["judge"].model
        self._host = EpisodeHost(roles, seed=0, store=self.asked.append)

    async def __aenter__(self) -> Judge:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._host.aclose()

    async def ask(self, system: str, question: str) -> str:
        """Return the model's answer.

        Raises:
            NoJudgeError: it gave none, or a limit is reached.
        """
        messages = [ChatMessage(role="system", content=system), ChatMessage(role="user", content=question)]
        try:
            return (await self._host.ask("judge", messages)).content
        except HostError as error:
            failure = self._host.take_failure()
            raise NoJudgeError(failure.detail if failure else str(error)) from error

    @property
    def cost(self) -> float:
        """US dollars, as far as they are known."""
        return self._host.cost

    @property
    def tokens(self) -> int:
        """All tokens that the endpoint reported."""
        usages = [one.usage for one in self.asked if one.usage is not None]
        return sum((usage.input_tokens or 0) + (usage.output_tokens or 0) for usage in usages)


def asked_lines(asked: Sequence[Asked]) -> str:
    """Return questions and answers as JSON lines."""
    return "".join(json.dumps(_plain(one), ensure_ascii=False) + "\n" for one in asked)


def json_in(answer: str, begin: str, end: str) -> Any:
    """Return the JSON value in an answer from the first `begin` to the last `end`, or None."""
    first, last = answer.find(begin), answer.rfind(end)
    try:
        return json.loads(answer[first : last + 1]) if 0 <= first < last else None
    except ValueError:
        return None


def _plain(asked: Asked) -> dict[str, Any]:
    usage = asked.usage.model_dump(exclude_none=True) if asked.usage else None
    return {**asdict(asked), "usage": usage}
