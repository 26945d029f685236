"""What an agent sent to its model: per turn, and all captured calls."""

from __future__ import annotations

import json
import re

import pytest
from click.testing import CliRunner

from mcp_bench.recorder.cli.show import show
from tests.support.pages.html_page import parse
from tests.support.pages.viewer import captured, client, talked

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


def test_turns_of_a_talk_lead_to_their_own_call(bench_home: object) -> None:
    """With `reply_to_user`, a page has other messages than the model had."""
    page, calls = talked()
    turns = [
        one
        for one in parse(client().get(page).text).all("section")
        if one.attributes.get("id", "")[:1] == "m"
    ]
    found = {
        turn.all("a")[0].text: [
            link.attributes["href"].rpartition("/")[2]
            for link in turn.all("a")
            if link.text.startswith("what the")
        ]
        for turn in turns
    }
    own = {
        "turn 1": calls[:1],
        "turn 2": calls[1:2],
        "turn 3": [],
        "turn 4": calls[2:3],
    }  # 2 and 3 are one message
    assert found == {"task": [], "user": [], **own}
    assert "What do you want?" in turns[1].text and "brew" in turns[3].text and "Here it is." in turns[6].text
    assert [", took 1.0 s" in turns[at].text for at in (1, 3, 4, 6)] == [True, True, False, True]


def test_show_lists_calls_with_the_numbers_of_its_messages(bench_home: object) -> None:
    page, _ = talked()
    episode = page.rpartition("/")[2]

    def shown(*options: str) -> list[str]:
        return CliRunner().invoke(show, [episode, *options]).output.splitlines()

    turns = [line.split()[0] for line in shown() if re.match(r"[ \d]\d  turn [124] ", line)]
    assert turns == ["1", "3", "7"]
    assert [re.findall(r"message \d+", line) for line in shown("--model-calls")[1:]] == [
        *([f"message {number}"] for number in turns),
        [],  # nobody read what it said last
    ]


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
