"""A path that begins with a secret: whoever was not told it finds nothing there."""

from __future__ import annotations

import hmac

from starlette.types import Scope


def below_token(scope: Scope, token: str) -> Scope | None:
    """Return the scope of a request for `/token/...` as if the path began behind the token; None for any
    other path."""
    shown, _, path = scope["raw_path"].removeprefix(b"/").partition(b"/")
    if not hmac.compare_digest(shown, token.encode()):
        return None
    return {**scope, "raw_path": b"/" + path, "path": scope["path"].removeprefix(f"/{token}")}
