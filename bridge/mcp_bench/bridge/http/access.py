"""Access control for a listener: token, `Host`, `Origin` and the size of requests.

Every process of the machine reaches loopback, agents included, so each request must show the token: in its
path or in a header. Web pages must not get access through a name that resolves to 127.0.0.1 (DNS rebinding).
So `Host` must be the address of the listener, and `Origin`, which browsers send, must be its origin.
"""

from __future__ import annotations

import hmac
import ipaddress
import logging
from collections.abc import Callable

import anyio
from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcp_bench.recorder.records import FlagKind
from mcp_bench.servers.errors import WrongUseError
from mcp_bench.servers.terminal.sanitize import sanitize_line

READ_ON = 1 << 20
"""Bytes that are still read from a request that is too large."""
LINGER_SECONDS = 2.0
"""How long each of them is waited for: a client may announce more than it sends."""
_log = logging.getLogger(__name__)
PREFIX = "mcp_bench.prefix"
"""Key of the ASGI scope that holds what was removed from the beginning of the path."""
LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")


OnRefused = Callable[[Scope, FlagKind, str], None]
"""Gets a refused request, the kind of refusal, and details."""


def log_refused(scope: Scope, kind: FlagKind, detail: str) -> None:
    _log.warning("refused %s (%s): %s", client_of(scope), kind, sanitize_line(detail))


def client_of(scope: Scope) -> str:
    """Return the client's address and port for logs, or `?` if they are unknown."""
    return ":".join(map(str, scope.get("client") or ("?",)))


class AccessRules:
    """ASGI middleware that passes on allowed requests, and answers others with 401, 403, 413 or 421."""

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
        """Protect an app that listens on `host` and `port`.

        Args:
            app: Gets the allowed requests.
            host: A name or an address.
            port: Port of the listener.
            token: Expected as the first part of the path, or as `Authorization: Bearer ...`; either is not
                passed on. None: the app itself checks a token of each request.
            max_body: Limit of a request's body in bytes.
            on_refused: Called for each refused request.

        Raises:
            WrongUseError: the address is not loopback, and there is no token.
        """
        if token is None and not is_loopback(host):
            raise WrongUseError(
                f"{host} can be reached from other machines: set a token, or listen on 127.0.0.1"
            )
        self._app = app
        self._token = token
        self._max_body = max_body
        self._on_refused = on_refused
        self._security = TransportSecurityMiddleware(host_rules(host, port))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        if (response := await self._security.validate_request(Request(scope))) is not None:
            named = {key: value for key, value in scope["headers"] if key in (b"host", b"origin")}
            sent = " ".join(f"{key.decode()} {value.decode('latin-1')[:100]}" for key, value in named.items())
            self._on_refused(scope, "foreign_origin", sent or "no host")
            await response(scope, receive, send)
        elif (admitted := self._admitted(scope)) is None:
            self._on_refused(scope, "wrong_token", "no token, or a wrong one")
            headers = {"WWW-Authenticate": "Bearer"}
            await PlainTextResponse("a bearer token is needed", 401, headers)(scope, receive, send)
        elif self._max_body is None:
            await self._app(admitted, receive, send)
        else:
            await self._pass_limited(admitted, receive, send, self._max_body)

    def _admitted(self, scope: Scope) -> Scope | None:
        """Return a request without its token, or None if the token is missing or wrong."""
        if self._token is None:
            return scope
        if (inner := below_token(scope, self._token)) is not None:
            return inner  # with the client's `Authorization`, which can be meant for the server behind us
        return scope if self._shows_token(scope, self._token.encode()) else None

    def _shows_token(self, scope: Scope, expected: bytes) -> bool:
        shown = [value for name, value in scope["headers"] if name == b"authorization"]
        # the token is for this listener only, so the app does not get it
        scope["headers"] = [header for header in scope["headers"] if header[0] != b"authorization"]
        if len(shown) != 1:
            return False
        scheme, _, token = shown[0].partition(b" ")
        return hmac.compare_digest(token.strip(), expected) and scheme.lower() == b"bearer"

    async def _pass_limited(self, scope: Scope, receive: Receive, send: Send, limit: int) -> None:
        declared = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        over, started, received = declared.isdigit() and int(declared) > limit, False, 0
        more = True

        async def receive_limited() -> Message:
            nonlocal received, over, more
            message = await receive()
            more = message.get("more_body", False)
            received += len(message.get("body", b""))
            over = over or received > limit
            # to the app this looks like a client that went away, so it stops
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
            # a client that still sends when the connection closes would not see the answer
            if more:
                await _read_on(receive)
            text = f"the request is larger than {limit} bytes"
            await PlainTextResponse(text, 413, {"Connection": "close"})(scope, receive, send)


async def _read_on(receive: Receive) -> None:
    left, more = READ_ON, True
    while more and left > 0:
        message: Message = {}
        with anyio.move_on_after(LINGER_SECONDS):
            message = await receive()
        left -= len(message.get("body", b""))
        more = message.get("more_body", False)


def is_loopback(host: str) -> bool:
    """Return whether `host` is reachable only from this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def host_rules(host: str, port: int) -> TransportSecuritySettings:
    """Return the `Host` and `Origin` headers that a listener accepts.

    A wildcard address accepts all of them: the names that lead to it are unknown, and it requires a token
    anyway.
    """
    bare = host.strip("[]")
    if bare in ("", "0.0.0.0", "::"):  # noqa: S104 - compared, not listened on
        return TransportSecuritySettings(enable_dns_rebinding_protection=False)
    names = {f"[{bare}]" if ":" in bare else bare, *(LOOPBACK_NAMES if is_loopback(host) else ())}
    hosts = [f"{name}:{port}" for name in names] + ([*names] if port == 80 else [])
    origins = [f"{scheme}://{name}" for name in hosts for scheme in ("http", "https")]
    return TransportSecuritySettings(allowed_hosts=hosts, allowed_origins=origins)


def below_token(scope: Scope, token: str) -> Scope | None:
    """Remove a leading `/token` from the path of a request. Return None if the path does not begin with it.

    Without the secret token, a client finds nothing at this listener.
    """
    shown, _, path = scope["raw_path"].removeprefix(b"/").partition(b"/")
    if not hmac.compare_digest(shown, token.encode()):
        return None
    inner = scope["path"].removeprefix(f"/{token}") or "/"
    return {**scope, "raw_path": b"/" + path, "path": inner, PREFIX: f"/{token}"}
