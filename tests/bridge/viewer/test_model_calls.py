"""What an agent sent to its model: per turn, and all captured calls."""

from __future__ import annotations

import json

import pytest

from tests.support.html_page import parse
from tests.support.viewer import captured, client

pytestmark = pytest.mark.component


def test_a_turn_leads_to_what_the_model_was_sent(bench_home: object) -> None:
    page, (_, answered) = captured()
    viewed = client()
    links = parse(viewed.get(page).text).all("a")
    (link,) = (one for one in links if one.text == "what the model was sent")
    assert link.attributes["href"] == f"{page}/model-calls/{answered}"
    assert any(one.text == "2 model calls, 1 failed" for one in links)
    shown = viewed.get(str(link.attributes["href"])).text
    read = parse(f"<p>{shown}</p>")
    for part in (
        "Parameters",
        "temperature 0.5",
        "As sent. <script>",
        "Hello. <script>",
        "100 tokens in, 20 out",
    ):
        assert part in read.text
    assert read.all("summary")[0].text.startswith("Parameters")
    assert not read.all("script")
    assert "\x1b" not in shown
    whole = viewed.get(f"{page}/model-calls/{answered}/request")
    assert json.loads(whole.text)["temperature"] == 0.5
    assert whole.headers["content-security-policy"] == "default-src 'none'; sandbox"


def test_calls_that_failed_are_listed_too(bench_home: object) -> None:
    page, (refused, answered) = captured()
    viewed = client()
    rows = parse(f"<p>{viewed.get(f'{page}/model-calls').text}</p>").all("summary")
    assert [one.attributes["hx-get"] for one in rows] == [
        f"{page}/model-calls/{one}" for one in (refused, answered)
    ]
    assert "error 429" in rows[0].text
    assert "error" not in rows[1].text
    for missing in ("/model-calls/mc_none", f"/model-calls/{answered}/other"):
        assert viewed.get(f"{page}{missing}").status_code == 404
