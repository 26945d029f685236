"""Errors of the simulated APIs, worded like those of business software."""

from __future__ import annotations

from typing import Any, Literal

Code = Literal[
    "validation_error",
    "unauthorized",
    "permission_denied",
    "not_found",
    "method_not_allowed",
    "conflict",
    "rate_limited",
]

STATUS: dict[Code, int] = {
    "unauthorized": 401,
    "permission_denied": 403,
    "not_found": 404,
    "method_not_allowed": 405,
    "conflict": 409,
    "validation_error": 422,
    "rate_limited": 429,
}
"""HTTP status of each code, for the `api` toolset."""

MAX_ECHO = 60
"""Most characters of the agent's own value that an error repeats."""


class ApiError(Exception):
    """A call was refused and changed nothing. The agent sees the message."""

    def __init__(self, code: Code, message: str, field: str | None = None, **more: Any) -> None:
        super().__init__(message)
        self.code: Code = code
        self.field = field
        self.more = more

    def body(self) -> dict[str, Any]:
        """Return `{"error": {"code", "message", "field"?, ...}}`."""
        error: dict[str, Any] = {"code": self.code, "message": str(self)}
        if self.field is not None:
            error["field"] = self.field
        return {"error": {**error, **self.more}}


def invalid(field: str, message: str) -> ApiError:
    """Return a validation error about one field."""
    return ApiError("validation_error", message, field)


def echo(value: object) -> str:
    """Return a value in quotes, shortened and safe to print, for an error message."""
    text = ascii(value)
    return text if len(text) <= MAX_ECHO else f"{text[:MAX_ECHO]}..."
