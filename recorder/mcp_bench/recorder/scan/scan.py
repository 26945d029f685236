"""Search one stored episode for evidence that its agent looked for its grade.

Only the agent's messages and commands, and the results of its built-in tools, are evidence. The prompt and
the benchmark's answers are not, whatever they mention. Canaries are evidence anywhere: only somebody who has
read one can know it.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from typing import Any

from mcp_bench.recorder.conversations.align import canonical
from mcp_bench.recorder.frames import jsonrpc
from mcp_bench.recorder.runs.reader import RunReader
from mcp_bench.recorder.scan.marks import Marks, Source, normalised
from mcp_bench.recorder.taint import Canaries, Evidence, EvidenceKind, Scan, judged
from mcp_bench.servers.terminal.sanitize import sanitize_line

logger = logging.getLogger(__name__)
TAINTING = frozenset(
    ("wrong_token", "foreign_peer", "replay", "forged_control", "other_session", "foreign_origin")
)
"""Kinds of flags that are evidence.

Of the others, `flood` only means a clumsy agent, and `late_reconnect` can be an honest agent whose server
ended: it was refused and gained nothing. `over_limit` and `not_ended` are about the machine.
"""
MAX_EVIDENCE = 20
"""Pieces of evidence that are stored per episode."""
AROUND = 60
"""Characters of an excerpt before a match; twice as many follow."""


def scan(reader: RunReader, episode: str) -> Scan:
    """Return the verdict on an episode that has ended, with the first `MAX_EVIDENCE` pieces of evidence.

    This only reads, and is slow for a large episode.
    """
    search = _Search(reader, episode)
    found: dict[Evidence, None] = {}
    try:
        for evidence in search.evidence():
            found[evidence] = None
            if len(found) == MAX_EVIDENCE:
                break
    except Exception:
        if not found:
            raise
        # what was found before proves it
        logger.exception("episode %s could be scanned in part only", episode)
    # what another program wrote down is no observation of ours
    observed = search.observed and reader.settings().imported is None
    return judged(tuple(found), own_tools=reader.own_tools(), observed=observed)


class _Search:
    def __init__(self, reader: RunReader, episode: str) -> None:
        self._reader, self._episode = reader, reader.episode(episode)
        self.observed = False
        """Whether a transcript or a captured model call shows what the agent did."""
        self._canaries = Canaries(reader.canaries())
        name = self._episode.benchmark.partition(":")[0]  # NAME:FOLDER
        packages = {name, name.replace("-", "_")}
        self._marks = Marks(reader.path.absolute().parent.parent, packages, self._episode.prompt)
        # an agent may repeat our home if the prompt or the world named it first
        self._world_named_home = self._marks.names_home(self._episode.prompt)

    def evidence(self) -> Iterator[Evidence]:
        for flag in self._reader.flags(self._episode.id):
            if flag.kind in TAINTING:
                yield Evidence("flag", flag.kind, "flags", sanitize_line(flag.detail))
        yield from self._frames()
        yield from self._messages()
        yield from self._model_calls()
        if self._episode.answer:
            yield from self._look(self._episode.answer, "the answer", "said")

    def _frames(self) -> Iterator[Evidence]:
        home_is_named = self._world_named_home
        for number, sender, body in self._reader.frame_bodies(self._episode.id):
            where, text = f"frame {number}, {sender}", frame_text(body)
            if not home_is_named and self._marks.names_home(text):
                home_is_named = True
                self._world_named_home = sender == "server"
            yield from self._look(text, where, "said" if sender == "client" else None)

    def _messages(self) -> Iterator[Evidence]:
        on_the_wire = Counter(
            (call.tool, canonical(call.arguments)) for call in self._reader.calls(self._episode.id)
        )
        own: dict[str, str] = {}
        for position, message in enumerate(self._reader.messages(self._episode.id)):
            where = f"message {position}"
            if message.role == "assistant":
                for text in filter(None, (message.reasoning, message.content)):
                    self.observed = True
                    yield from self._look(text, where, "said")
                for call in message.tool_calls:
                    name, arguments = call.function.name, call.function.arguments
                    if on_the_wire[name, canonical(arguments)]:
                        on_the_wire[name, canonical(arguments)] -= 1
                        continue  # its frames were searched
                    self.observed = True
                    own[call.id] = name
                    text = "\n".join(strings(arguments))
                    yield from self._look(text, f"{where}, call {name}", "ran")
            elif message.role == "tool" and message.content and message.tool_call_id in own:
                name = own[message.tool_call_id]
                yield from self._look(message.content, f"{where}, result of {name}", "returned")

    def _model_calls(self) -> Iterator[Evidence]:
        for call, _, answer in self._reader.model_answers(self._episode.id):
            self.observed = True
            yield from self._look("\n".join(strings(answer)), f"model call {call}", "said")

    def _look(self, text: str, where: str, source: Source | None) -> Iterator[Evidence]:
        """Yield the evidence in a text. `source` is None for texts of the benchmark."""
        for seen in self._canaries.find(text):
            what = f"the canary in {seen.canary.place}, {seen.form}"
            yield _evidence("canary", what, where, text, seen.at)
        if source is None:
            return
        path = normalised(text)
        for mark in self._marks.find(path, source):
            if source == "said" and self._world_named_home:
                continue
            yield _evidence(mark.kind, f"{mark.what} ({mark.text})", where, path, mark.at)


def strings(value: Any) -> Iterator[str]:
    """Yield all text in a JSON value, keys too."""
    waiting = [value]
    while waiting:
        match waiting.pop():
            case str() as text:
                yield text
            case dict() as fields:
                yield from fields
                waiting += fields.values()
            case list() as items:
                waiting += items


def frame_text(body: bytes) -> str:
    """Return the text in a frame with escapes decoded; a frame that is not JSON as it is."""
    try:
        return "\n".join(strings(jsonrpc.loads(body)))
    except ValueError:
        return body.decode("utf-8", "replace")


def _evidence(kind: EvidenceKind, what: str, where: str, text: str, at: int | None) -> Evidence:
    begin = max(0, (at or 0) - AROUND)
    excerpt = text[begin : (at or 0) + 2 * AROUND]
    return Evidence(kind, sanitize_line(what), where, sanitize_line(excerpt))
