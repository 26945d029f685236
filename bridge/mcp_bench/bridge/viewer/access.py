"""Who may use the viewer: a browser with the right cookie, on pages of the viewer itself.

Every process of the machine reaches loopback, agents included. So a request must show a cookie. A browser
gets it from a one-time code, which is in a file that only its user can read, or for the token of this user's
listeners. Nothing secret stands in a command line.

The cookie is `SameSite=Strict`, and `Host` and `Origin` must be the viewer's own. Other ports of the same
address are the same *site*, so what changes something must also come from the viewer's own pages.

Browsers send a cookie to every port of a host (RFC 6265, section 8.5), so a page that an agent serves on
127.0.0.1 would get it. On loopback the viewer therefore has a host name of its own, below `localhost`, which
browsers resolve to loopback themselves (RFC 6761, section 6.3). Nobody can guess it: it is derived from the
token, and pages send no `Referer` to others.
"""

from __future__ import annotations

import hashlib
import hmac
import html
import secrets
from pathlib import Path
from urllib.parse import parse_qs

from mcp.server.transport_security import TransportSecurityMiddleware
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcp_bench.bridge.http.access import host_rules, is_loopback, log_refused

OPEN, LOGIN = "/open", "/login"
MAX_BODY = 1 << 20
_GO_ON, _ASK = (
    Path(__file__).with_name("templates").joinpath(name).read_text("utf-8")
    for name in ("go_on.html", "ask.html")
)
"""A redirect from a file would still count as a request of that file's site, without a strict cookie. So a
page leads on."""
_COOKIE_DAYS = 30
_PURPOSE = b"mcp-bench view: session cookie"
_NAME = b"mcp-bench view: host name"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""No inline scripts or styles, nothing from other hosts, and no page may frame the viewer."""
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",  # with no-referrer, browsers send forms with `Origin: null`
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class ViewerAccess:
    """ASGI middleware: lets browsers in, answers others with 401, 403, 413 or 421, sets headers."""

    def __init__(self, app: ASGIApp, host: str, port: int, token: str, path: str = "/") -> None:
        """Protect an app.

        Args:
            app: gets the allowed requests.
            host: the listener's address.
            port: its port.
            token: of this user's listeners. The cookie is derived from it, so it stays valid when the viewer
                is started again.
            path: the page that a one-time code leads to.
        """
        self._app = app
        self._token = token.encode()
        self._cookie = hmac.new(self._token, _PURPOSE, hashlib.sha256).hexdigest()
        self._name = f"mcp_bench_view_{port}"
        self._code: str | None = None
        self._go_on = _GO_ON.replace("{path}", html.escape(path))
        rules = host_rules(host, port)
        self.host: str | None = None
        """The viewer's own name, if it listens on loopback."""
        if is_loopback(host):
            secret = hmac.new(self._token, _NAME, hashlib.sha256).hexdigest()
            self.host = f"view-{secret[:24]}.localhost"
            rules.allowed_hosts.append(own := f"{self.host}:{port}")
            rules.allowed_origins.append(f"http://{own}")
        self._security = TransportSecurityMiddleware(rules)

    def one_time_code(self) -> str:
        """Return a new code for `/open?code=...`. It works once, and ends the one before."""
        self._code = secrets.token_urlsafe(32)
        return self._code

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        request = Request(scope, receive)
        answer = await self._refused(request)
        await (answer or self._app)(scope, receive, send_with_headers)

    async def _refused(self, request: Request) -> Response | None:
        """Return the answer to a request that the app does not get."""
        if (answer := await self._security.validate_request(request)) is not None:
            log_refused(request.scope, "foreign_origin", "Host or Origin is not the viewer's")
            return answer
        path = request.url.path
        if path == OPEN:
            return self._open(request)
        if path == LOGIN and request.method == "POST":
            return await self._login(request)
        if path.startswith("/static/"):
            return None
        shown = request.cookies.get(self._name, "")
        if not hmac.compare_digest(shown.encode("utf-8", "replace"), self._cookie.encode()):
            log_refused(request.scope, "wrong_token", "no cookie, or a wrong one")
            return HTMLResponse(_ASK, 401)
        if request.method not in ("GET", "HEAD") and not _from_own_page(request):
            log_refused(request.scope, "foreign_origin", "a change that did not come from the viewer's pages")
            return PlainTextResponse("this request did not come from the viewer's own pages", 403)
        if int(request.headers.get("content-length") or 0) > MAX_BODY:
            return PlainTextResponse(f"the request is larger than {MAX_BODY} bytes", 413)
        return None

    def _open(self, request: Request) -> Response:
        code, shown = self._code, request.query_params.get("code", "")
        if code is None or not hmac.compare_digest(shown.encode("utf-8", "replace"), code.encode()):
            log_refused(request.scope, "wrong_token", "a code that is wrong, or was used already")
            return HTMLResponse(_ASK, 401)
        self._code = None  # only the right one ends it: else anybody could keep the browser out
        return self._let_in(HTMLResponse(self._go_on))

    async def _login(self, request: Request) -> Response:
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > 1 << 12:
                return PlainTextResponse("too long for a token", 413)
        shown = parse_qs(body.decode("latin-1")).get("token", [""])[0].strip()
        if not _from_own_page(request) or not hmac.compare_digest(shown.encode(), self._token):
            log_refused(request.scope, "wrong_token", "a wrong token")
            return HTMLResponse(_ASK, 401)
        return self._let_in(RedirectResponse("/", 303))

    def _let_in(self, response: Response) -> Response:
        response.set_cookie(
            self._name, self._cookie, max_age=_COOKIE_DAYS * 86400, httponly=True, samesite="strict", path="/"
        )
        return response


def _from_own_page(request: Request) -> bool:
    """Return whether a browser says that a page of this very origin made the request.

    That `Origin` is the listener's own if it is there was checked already.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    return request.headers.get("origin", "").partition("://")[2] == request.headers.get("host")
