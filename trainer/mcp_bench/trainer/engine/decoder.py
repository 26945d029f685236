"""What answers requests: an engine in this process, or a server with the same weights."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Self

from mcp_bench.trainer.engine.sequence import Completion, Request


class Decoder(ABC):
    """Answers requests while its context is open."""

    @abstractmethod
    def __enter__(self) -> Self: ...

    @abstractmethod
    def __exit__(self, *_: object) -> None: ...

    @abstractmethod
    def submit(self, request: Request) -> None:
        """Add a request. Its `done` gets the answer, or the error that ended it."""

    def complete(self, requests: Sequence[Request]) -> list[Completion]:
        """Add requests and wait for all answers."""
        for request in requests:
            self.submit(request)
        return [request.done.result() for request in requests]

    @abstractmethod
    def weights_changed(self) -> None:
        """Use the model's new weights, and nothing that was computed with those of before.

        Change weights only between requests.
        """

    @abstractmethod
    def forget(self) -> None:
        """Release memory that only makes later requests faster."""

    @abstractmethod
    def check(self) -> None:
        """Check that requests can still be answered.

        Raises:
            BenchError: a server has ended; the text says why.
        """
