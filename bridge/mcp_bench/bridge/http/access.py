"""Who may use a listener: a token, `Host` and `Origin`, and the size of what comes in.

On loopback anybody on the machine gets in unless a token is set; but a web page must not, through a
name that it points at 127.0.0.1 (DNS rebinding): `Host` must be the address that is listened on, and
`Origin`, where a browser sends it, must be ours. On any other address a token is needed.
"""

from __future__ import annotations

import hmac
import ipaddress
import logging
from collections.abc import Callable

from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcp_bench.recorder.records import FlagKind
from mcp_bench.servers.errors import WrongUseError
from mcp_bench.servers.sanitize import sanitize_line

READ_ON = 1 << 20
"""Bytes that are still read of a request that is too large."""
_log = logging.getLogger(__name__)
LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")


OnRefused = Callable[[Scope, FlagKind, str], None]
"""Gets the request, and what was wrong with it."""


def log_refused(scope: Scope, kind: FlagKind, detail: str) -> None:
    _log.warning("refused %s (%s): %s", client_of(scope), kind, sanitize_line(detail))


def client_of(scope: Scope) -> str:
    """Return the address and port that a request came from, for logs; `?` where they are not known."""
    return ":".join(map(str, scope.get("client") or ("?",)))


class AccessRules:
    """ASGI middleware that answers 401, 403, 413 or 421 itself, and passes on what is allowed."""

    def __init__(
        self,
        app: ASGIApp,
        host: str,
        port: int,
        *,
        token: str | None = None,
        max_body: int | None = None,
        on_refused: OnRefused = log_refused,
    ) -> None:
        """Guard an app that listens on `host` (a name or an address) and `port`.

        `token` is expected as `Authorization: Bearer ...`, and that header is not passed on;
        `max_body` is in bytes. `on_refused` is told of whoever is not let in.

        Raises:
            WrongUseError: another address than loopback, without a token.
        """
        if token is None and not is_loopback(host):
            raise WrongUseError(
                f"{host} can be reached from other machines: set a token, or listen on 127.0.0.1"
            )
        self._app = app
        self._token = None if token is None else token.encode()
        self._max_body = max_body
        self._on_refused = on_refused
        self._security = TransportSecurityMiddleware(host_rules(host, port))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        if (response := await self._security.validate_request(Request(scope))) is not None:
            named = {key: value for key, value in scope["headers"] if key in (b"host", b"origin")}
            told = " ".join(f"{key.decode()} {value.decode('latin-1')[:100]}" for key, value in named.items())
            self._on_refused(scope, "foreign_origin", told or "no host")
            await response(scope, receive, send)
        elif not self._authorised(scope):
            self._on_refused(scope, "wrong_token", "without the token, or with a wrong one")
            headers = {"WWW-Authenticate": "Bearer"}
            await PlainTextResponse("a bearer token is needed", 401, headers)(scope, receive, send)
        elif self._max_body is None:
            await self._app(scope, receive, send)
        else:
            await self._pass_limited(scope, receive, send, self._max_body)

    def _authorised(self, scope: Scope) -> bool:
        if self._token is None:
            return True
        shown = [value for name, value in scope["headers"] if name == b"authorization"]
        # the token is ours: whoever is behind this has no use for it
        scope["headers"] = [header for header in scope["headers"] if header[0] != b"authorization"]
        if len(shown) != 1:
            return False
        scheme, _, token = shown[0].partition(b" ")
        return hmac.compare_digest(token.strip(), self._token) and scheme.lower() == b"bearer"

    async def _pass_limited(self, scope: Scope, receive: Receive, send: Send, limit: int) -> None:
        told = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        over, started, came = told.isdigit() and int(told) > limit, False, 0
        more = True

        async def receive_limited() -> Message:
            nonlocal came, over, more
            message = await receive()
            more = message.get("more_body", False)
            came += len(message.get("body", b""))
            over = over or came > limit
            # to the app it looks as if the client went away, and it stops
            return {"type": "http.disconnect"} if over else message

        async def send_noted(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        if not over:
            await self._app(scope, receive_limited, send_noted)
        if over:
            self._on_refused(scope, "flood", f"a request of more than {limit} bytes")
        if over and not started:
            # a client that is still sending when the connection closes would not see the answer
            if more:
                await _read_on(receive)
            text = f"the request is larger than {limit} bytes"
            await PlainTextResponse(text, 413, {"Connection": "close"})(scope, receive, send)


async def _read_on(receive: Receive) -> None:
    left, more = READ_ON, True
    while more and left > 0:
        message = await receive()
        left -= len(message.get("body", b""))
        more = message.get("more_body", False)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def host_rules(host: str, port: int) -> TransportSecuritySettings:
    """Return the `Host` and `Origin` headers that a listener takes.

    For an address that stands for all of the machine's there is no list: by which names it is reached
    is not known, and without the token none of them helps.
    """
    bare = host.strip("[]")
    if bare in ("", "0.0.0.0", "::"):  # noqa: S104 - compared, not listened on
        return TransportSecuritySettings(enable_dns_rebinding_protection=False)
    names = {f"[{bare}]" if ":" in bare else bare, *(LOOPBACK_NAMES if is_loopback(host) else ())}
    hosts = [f"{name}:{port}" for name in names] + ([*names] if port == 80 else [])
    origins = [f"{scheme}://{name}" for name in hosts for scheme in ("http", "https")]
    return TransportSecuritySettings(allowed_hosts=hosts, allowed_origins=origins)


def below_token(scope: Scope, token: str) -> Scope | None:
    """Return the scope of a request for `/token/...` as if the path began behind the token; None for any
    other path."""
    shown, _, path = scope["raw_path"].removeprefix(b"/").partition(b"/")
    if not hmac.compare_digest(shown, token.encode()):
        return None
    return {**scope, "raw_path": b"/" + path, "path": scope["path"].removeprefix(f"/{token}")}
