"""Decodes many requests at once: a new one joins while others are decoded, finished ones leave."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Literal, Protocol, Self

import numpy as np
import torch

from mcp_bench.servers.errors import BenchError
from mcp_bench.trainer.chat.calls import AnswerParser
from mcp_bench.trainer.engine.decoder import Decoder
from mcp_bench.trainer.engine.kept import KeptPrefixes, KeyValues, shared
from mcp_bench.trainer.engine.sequence import Decoding, Request, choose_next, hidden_tokens

CHUNK = 512
"""Prompt tokens that are read between two steps."""
BATCH = 16
ROOM = 512
"""Columns for the rest of each answer that are counted before a request is let in. If answers need more than
there is, some wait until others have ended."""


class Caches(Protocol):
    """`RowCache` or `SeparateCaches`."""

    whole_prompts: bool

    def __len__(self) -> int: ...
    def length(self, row: int) -> int: ...
    def fits(self, columns: Sequence[int], most_bytes: int) -> bool: ...
    def begin(self, prefix: KeyValues | None, length: int, total: int) -> None: ...
    def begin_like(self, source: int, length: int, total: int) -> None: ...
    def read(self, tokens: torch.Tensor) -> torch.Tensor: ...
    def step(self, tokens: torch.Tensor) -> torch.Tensor: ...
    def remove(self, row: int, decoding: int) -> None: ...
    def drop_last(self) -> None: ...
    def take(self, row: int) -> KeyValues | None: ...


class Engine(Decoder):
    """A loaded model that answers requests in a thread of its own: `with Engine(...) as engine: ...`."""

    def __init__(
        self,
        caches: Caches,
        tokenizer: Any,
        ends: Sequence[int],
        parser: AnswerParser,
        device: torch.device,
        *,
        batch: int = BATCH,
        cache_bytes: int = 1 << 30,
        chunk: int = CHUNK,
    ) -> None:
        """Prepare; `load` does all of this for a checkpoint.

        Args:
            caches: what holds the sequences.
            tokenizer: the model's tokenizer.
            ends: the tokens that end an answer.
            parser: what reads the answers; its marks stay in their text.
            device: where the model is.
            batch: how many requests are decoded at once.
            cache_bytes: memory for keys and values. A third of it is for those of finished requests.
            chunk: how many tokens of prompts are read between two tokens of those being answered.
        """
        self._caches, self._tokenizer, self._device = caches, tokenizer, device
        self._ends = frozenset(ends)
        self._hidden = hidden_tokens(tokenizer, parser)
        self._batch = batch
        self._live_bytes = cache_bytes * 2 // 3
        self._kept = KeptPrefixes(cache_bytes // 3)
        self._inbox: queue.SimpleQueue[Request | Literal["forget"] | None] = queue.SimpleQueue()
        self._waiting: deque[Decoding] = deque()
        self._decoding: list[Decoding] = []
        self._reading: Decoding | None = None
        self._chunk = chunk
        self._ended = False
        self._outdated = False
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._inbox.put(None)
        self._thread.join()

    def submit(self, request: Request) -> None:
        self._inbox.put(request)

    def weights_changed(self) -> None:
        self._outdated = True

    def forget(self) -> None:
        self._inbox.put("forget")

    def check(self) -> None:
        """Do nothing: this engine ends with its process only."""

    def _run(self) -> None:
        with torch.inference_mode():
            while not self._ended:
                try:
                    self._receive()
                    self._drop_cancelled()
                    self._read_some()
                    self._step()
                except Exception as error:  # a request that fails must not end the engine
                    self._fail(error)
        self._fail(BenchError("the engine was stopped"))
        self._kept.clear()

    def _receive(self) -> None:
        """Take what was submitted; wait if there is nothing else to do."""
        idle = not self._decoding and self._reading is None and not self._waiting
        while True:
            try:
                request = self._inbox.get(block=idle)
            except queue.Empty:
                return
            if request is None:
                self._ended = True
                return
            if request == "forget":
                self._kept.clear()
                continue
            self._waiting.append(Decoding(request, self._tokenizer, self._hidden, self._ends))
            idle = False

    def _drop_cancelled(self) -> None:
        self._waiting = deque(one for one in self._waiting if not one.request.done.cancelled())
        for row in range(len(self._decoding) - 1, -1, -1):
            if self._decoding[row].request.done.cancelled():
                self._leave(row)
        if self._reading is not None and self._reading.request.done.cancelled():
            self._reading = None
            self._caches.drop_last()

    def _read_some(self) -> None:
        """Read prompts: a chunk at most while others wait for their next token."""
        done = 0
        try:
            while (room := (self._chunk if self._decoding else CHUNK) - done) > 0 and (
                read := self._read(room)
            ):
                done += read
        except Exception as error:  # such as too little memory for this prompt: the other answers go on
            if self._reading is None:
                raise
            self._end([self._reading], error)
            self._reading = None

    def _read(self, room: int) -> int:
        """Read up to `room` tokens of a prompt, and of an answer that had to wait, and return how many.

        When it is complete, its sequence joins those that are decoded.
        """
        if self._reading is None:
            if not self._waiting or len(self._decoding) >= self._batch or not self._fits(self._waiting[0]):
                return 0
            self._reading = self._waiting.popleft()
            self._begin(self._reading)
        one = self._reading
        known = one.known
        start = self._caches.length(len(self._caches) - 1)
        end = len(known)
        if not self._caches.whole_prompts:
            end = min(end, start + room)
        scores = self._caches.read(torch.tensor(known[start:end], device=self._device))
        if end == len(known):
            choose_next([one], scores[None])
            self._reading = None
            self._decoding.append(one)
            self._finish(len(self._decoding) - 1)
        return end - start

    def _fits(self, joining: Decoding) -> bool:
        """Return whether there is memory for a sequence beside the others."""
        columns = [_room(one) for one in (*self._decoding, joining)]
        return not self._decoding or self._caches.fits(columns, self._live_bytes)

    def _begin(self, one: Decoding) -> None:
        """Give a sequence a row, with the longest beginning that is known already."""
        if self._outdated:
            self._outdated = False
            self._kept.clear()
        total = _room(one)
        if self._caches.whole_prompts:
            self._caches.begin(None, 0, total)
            return
        known = one.known
        layers, kept = self._kept.longest(known)
        live, row = max(
            ((self._shared(row, known), row) for row in range(len(self._decoding))), default=(0, 0)
        )
        cached = min(len(known) - 1, max(kept, live))  # the last token's scores are needed
        if not one.tokens:
            one.cached = cached
        if live > kept:
            self._caches.begin_like(row, cached, total)
        else:
            self._caches.begin(layers, cached, total)

    def _shared(self, row: int, tokens: list[int]) -> int:
        """Return how many first tokens a row that is being decoded shares with others."""
        there = self._decoding[row].known[: self._caches.length(row)]
        return shared(np.asarray(there, dtype=np.int64), np.asarray(tokens, dtype=np.int64))

    def _step(self) -> None:
        """Decode one token of each sequence."""
        if not self._decoding:
            return
        self._make_room()
        tokens = torch.tensor([one.tokens[-1] for one in self._decoding], device=self._device)
        choose_next(self._decoding, self._caches.step(tokens))
        for row in range(len(self._decoding) - 1, -1, -1):
            self._finish(row)

    def _make_room(self) -> None:
        """Let sequences wait again while the next tokens of all do not fit: the shortest answers first."""
        while len(self._caches) > 1:
            columns = [self._caches.length(row) + 1 for row in range(len(self._decoding))]
            columns += [] if self._reading is None else [len(self._reading.known)]
            if self._caches.fits(columns, self._live_bytes):
                return
            if self._reading is not None:
                one, self._reading = self._reading, None
                self._caches.drop_last()
            else:
                one = min(self._decoding, key=lambda one: len(one.tokens))
                self._leave(self._decoding.index(one))
            self._waiting.appendleft(one)

    def _finish(self, row: int) -> None:
        """Let a sequence leave if it has ended."""
        one = self._decoding[row]
        if one.finish_reason is None:
            return
        self._leave(row)
        if one.request.done.set_running_or_notify_cancel():
            one.request.done.set_result(one.completion())

    def _leave(self, row: int) -> None:
        """Remove a sequence, and keep its keys and values."""
        one = self._decoding[row]
        layers = self._caches.take(row)
        if layers is not None:
            self._kept.add(one.known[: self._caches.length(row)], layers)
        self._caches.remove(row, len(self._decoding))
        self._decoding[row] = self._decoding[-1]
        self._decoding.pop()

    def _fail(self, error: BaseException) -> None:
        """End all requests with an error, and forget their caches."""
        ended = [*self._decoding, *([] if self._reading is None else [self._reading])]
        ended += self._waiting if self._ended else ()
        self._decoding, self._reading = [], None
        self._end(ended, error)

    def _end(self, ended: Iterable[Decoding], error: BaseException) -> None:
        """End requests with an error, and drop all rows beyond those that are decoded."""
        while len(self._caches) > len(self._decoding):
            self._caches.drop_last()
        for done in (one.request.done for one in ended):
            if not done.done() and done.set_running_or_notify_cancel():
                done.set_exception(error)


def _room(one: Decoding) -> int:
    """Return the columns to count for a sequence."""
    answered = len(one.tokens)
    return len(one.request.prompt) + answered + min(ROOM, one.request.most_tokens - answered)
