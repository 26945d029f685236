"""Errors in the form of OpenAI's API."""

from __future__ import annotations

from typing import Any

OVERFLOW = "context_length_exceeded"


class ApiError(Exception):
    """An error that a client gets as its answer."""

    def __init__(
        self, message: str, *, status: int = 400, code: str | None = None, param: str | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.param = status, code, param

    @property
    def document(self) -> dict[str, Any]:
        """The answer's body."""
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        return {"error": {"message": str(self), "type": kind, "param": self.param, "code": self.code}}
