"""Who may use the viewer."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from mcp_bench.bridge.http.listen import bind
from mcp_bench.bridge.viewer import serve
from mcp_bench.bridge.viewer.access import ViewerAccess
from mcp_bench.bridge.viewer.app import viewer
from tests.support.pages.viewer import OWN, PORT, TOKEN, client, guarded, hostile_home

pytestmark = pytest.mark.component


def test_nothing_is_shown_without_the_cookie() -> None:
    run, (first, *_) = hostile_home()
    stranger = client(guarded())
    for page in (
        "/",
        f"/runs/{run}",
        f"/runs/{run}/{first}",
        f"/runs/{run}/events",
        "/search?q=a",
        "/nothing",
    ):
        answer = stranger.get(page)
        assert answer.status_code == 401
        assert run not in answer.text
    assert stranger.post(f"/runs/{run}/stop", headers=OWN).status_code == 401
    stranger.cookies.set("mcp_bench_view_8807", "0" * 64)
    assert stranger.get("/").status_code == 401


def test_a_code_works_once() -> None:
    access = guarded()
    one, two = client(access), client(access)
    code = access.one_time_code()
    let_in = one.get(f"/open?code={code}")
    cookie = let_in.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert one.get("/").status_code == 200
    assert two.get(f"/open?code={code}").status_code == 401


def test_a_code_leads_to_the_page_that_was_named() -> None:
    access = ViewerAccess(viewer(), "127.0.0.1", PORT, TOKEN, '/training?path="a"&b')
    page = client(access).get(f"/open?code={access.one_time_code()}").text
    assert 'content="0; url=/training?path=&quot;a&quot;&amp;b"' in page
    assert '<a href="/training?path=&quot;a&quot;&amp;b">' in page


def test_a_guess_does_not_end_the_right_code() -> None:
    access = guarded()
    one = client(access)
    code = access.one_time_code()
    assert one.get("/open?code=guess").status_code == 401
    assert one.get(f"/open?code={code}").status_code == 200
    assert one.get(f"/open?code={code}").status_code == 401


def test_the_token_logs_in() -> None:
    one = client(guarded())
    assert one.post("/login", data={"token": "guess"}, headers=OWN).status_code == 401
    assert (
        one.post("/login", data={"token": TOKEN}, headers={"Sec-Fetch-Site": "cross-site"}).status_code == 401
    )
    assert one.post("/login", data={"token": TOKEN}, headers=OWN).status_code == 303
    assert one.get("/").status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example:8807"},
        {"Host": "127.0.0.1:9999"},
        {"Origin": "http://evil.example"},
        {"Origin": "http://127.0.0.1:9999"},
    ],
)
def test_another_host_or_origin_is_refused(headers: dict[str, str]) -> None:
    assert client().get("/", headers=headers).status_code in (403, 421)


@pytest.mark.parametrize("site", ["cross-site", "same-site", "none", None])
def test_a_change_comes_from_our_own_pages(site: str | None) -> None:
    run, (first, *_) = hostile_home()
    headers = {"Sec-Fetch-Site": site} if site else {}
    answer = client().post(f"/runs/{run}/{first}/review", data={"verdict": "good"}, headers=headers)
    assert answer.status_code == 403


def test_every_answer_has_the_policy() -> None:
    run, _ = hostile_home()
    for one in (client(), client(guarded())):
        for page in ("/", "/static/view.js", f"/runs/{run}", "/nothing"):
            headers = one.get(page).headers
            assert "default-src 'none'" in headers["content-security-policy"]
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["x-frame-options"] == "DENY"
            assert headers["referrer-policy"] == "same-origin"


def test_an_own_name_keeps_the_cookie_from_other_ports() -> None:
    access = guarded()
    assert access.host is not None
    name = f"http://{access.host}:{PORT}"
    browser = TestClient(access, base_url=name, follow_redirects=False)
    assert browser.get(f"/open?code={access.one_time_code()}").status_code == 200
    assert browser.get("/").status_code == 200
    (cookie,) = browser.cookies.jar
    assert cookie.domain == access.host
    assert not cookie.domain_specified
    assert browser.get("/", headers={"Origin": name}).status_code == 200
    for other in ("view-0.localhost", "evil.localhost", f"x.{access.host}"):
        assert client(access).get("/", headers={"Host": f"{other}:{PORT}"}).status_code == 421
    assert ViewerAccess(viewer(), "127.0.0.1", PORT, "u" * 43).host != access.host
    assert ViewerAccess(viewer(), "0.0.0.0", PORT, TOKEN).host is None


def test_its_address_reaches_the_viewer(bench_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It leads from this machine to every address that a viewer can listen on."""
    shown: list[str] = []

    async def served(_: ViewerAccess, listener: socket.socket, openers: list[str], *__: object) -> None:
        shown.append(openers[-1].replace(str(listener.getsockname()[1]), "PORT"))

    monkeypatch.setattr(serve, "_serve", served)
    # this machine may have no IPv6
    monkeypatch.setattr(serve, "bind", lambda _, port: bind("127.0.0.1", port))
    for host in ("0.0.0.0", "::", "[::]", "127.0.0.1", "::1", "[::1]", "localhost"):
        serve.serve_viewer(host, 0, TOKEN, browser=False)
    names = ["127.0.0.1"] * 4 + ["[::1]"] * 2 + ["localhost"]
    assert shown == [f"http://{name}:PORT/open" for name in names]
