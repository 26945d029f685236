"""The viewer in a real browser: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from mcp_bench.recorder.runs.run_folder import RunFolder
from mcp_bench.recorder.store.reviews import Reviews
from tests.support.bench_commands import Bench
from tests.support.pages.viewer import captured, hostile_home, talked
from tests.support.pages.viewer_browser import NEEDS_CHROMIUM, PATIENCE_MS, Viewer, chromium, opened_viewer
from tests.support.recorded import Episode, begin, planned, play, record, request, response, run_info

pytestmark = [pytest.mark.system, NEEDS_CHROMIUM]
ANSWERS = [
    ("search", {"q": str(number)}, "!no" if number == 3 else f"found {number}") for number in range(20)
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture
def opened(browser: Browser, bench_home: Path) -> Iterator[Viewer]:
    with opened_viewer(browser, bench_home) as found:
        yield found


@pytest.fixture
def expect_soon() -> Iterator[None]:
    expect.set_options(timeout=PATIENCE_MS)
    yield
    expect.set_options(timeout=5_000)


def test_the_file_opens_the_viewer_and_goes(opened: Viewer, bench_home: Path) -> None:
    expect(opened.page.get_by_role("heading", name="Runs")).to_be_visible()
    (cookie,) = opened.context.cookies()
    assert cookie["httpOnly"]
    assert cookie["sameSite"] == "Strict"


def test_no_page_breaks_its_policy(opened: Viewer, bench_home: Path, expect_soon: None) -> None:
    run, episodes = hostile_home()
    first, second, *_ = (f"{run}/{episode}" for episode in episodes)
    pages = ("/", "/grid", f"/compare?a={run}&b={run}x", "/tools", "/failures", "/reviews", "/search?q=say",
             f"/runs/{run}", f"/runs/{first}", f"/side-by-side?a={first}&b={second}")  # fmt: skip
    for width in (400, 1280):
        opened.page.set_viewport_size({"width": width, "height": 900})
        for path in pages:
            opened.page.goto(opened.url + path, wait_until="load")
            assert opened.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (width, path)
    assert [one for one in opened.problems if "404" not in one] == []


def test_an_episode_by_keyboard(opened: Viewer, bench_home: Path, expect_soon: None) -> None:
    folder, (one, two) = record([(planned("a"), Episode(ANSWERS)), (planned("b"), Episode(ANSWERS))])
    page, base = opened.page, f"{opened.url}/runs/{folder.path.name}"
    page.goto(f"{base}/{one}")
    expect(page.locator("details.call[open]")).to_have_count(1)  # the one that failed
    page.keyboard.press("e")
    expect(page.locator("details.call[open]")).to_have_count(0)
    page.keyboard.press("e")
    expect(page.locator("details.call[open]")).to_have_count(20)
    page.keyboard.press("n")
    expect(page.locator("#c4 > summary")).to_be_focused()
    page.keyboard.press("b")
    expect(page.locator("#review")).to_contain_text("the grader says otherwise")
    review = Reviews().of(one)
    assert review is not None
    assert review.verdict == "bad"
    page.keyboard.press("j")
    expect(page.locator(".turn.here")).to_have_count(1)
    page.keyboard.press("]")
    page.wait_for_url(f"{base}/{two}")
    page.keyboard.press("u")
    page.wait_for_url(base)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    assert opened.problems == []


def test_an_episode_is_sifted_by_keyboard(opened: Viewer, bench_home: Path, expect_soon: None) -> None:
    run, (episode, *_) = hostile_home()
    page, address = opened.page, f"{opened.url}/runs/{run}/{episode}"
    page.goto(address)
    turns, failed = page.locator(".turn:visible"), page.locator(".call.failed:visible")
    everything = turns.count()
    page.keyboard.press("f")
    expect(page.get_by_role("button", name="errors 1")).to_have_attribute("aria-pressed", "true")
    expect(turns).to_have_count(1)
    expect(failed).to_have_count(1)
    expect(page.locator(".turn .prose:visible")).to_have_count(1)  # what it said when it made the call
    page.get_by_role("button", name="messages").press("Enter")
    expect(failed).to_have_count(0)
    page.keyboard.press("o")
    expect(page.locator("#outline li:visible a").first).to_be_focused()
    page.locator("#outline a.fails").press("Enter")
    expect(turns).to_have_count(everything)  # a link shows what was hidden
    expect(failed).to_be_in_viewport()
    page.keyboard.press("s")
    page.keyboard.type("deep")
    expect(turns).to_have_count(1)
    expect(turns).to_contain_text("deep")
    assert page.evaluate("CSS.highlights.get('found').size") == 1
    page.keyboard.press("Escape")
    expect(turns).to_have_count(everything)
    assert not page.evaluate("CSS.highlights.has('found')")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").click()
    assert download.value.suggested_filename == f"{episode}.json"
    assert json.loads(Path(download.value.path()).read_text())["id"] == episode
    assert opened.problems == []


def test_what_a_model_was_sent_comes_on_request(opened: Viewer, bench_home: Path, expect_soon: None) -> None:
    path, _ = captured()
    page = opened.page
    page.goto(opened.url + path)
    page.get_by_role("link", name="What the model was sent for turn 1").press("Enter")
    expect(page.locator(".turn .asked-model")).to_contain_text("As sent.")
    page.get_by_role("link", name="2 model calls, 1 failed").press("Enter")
    page.locator("#frames summary").first.press("Enter")
    expect(page.locator("#frames .asked-model")).to_contain_text("error 429")
    assert page.url == f"{opened.url}{path}#frames" or page.url == f"{opened.url}{path}"
    assert opened.problems == []


def test_frames_come_on_request(opened: Viewer, bench_home: Path, expect_soon: None) -> None:
    folder, (episode,) = record([(planned(), Episode(ANSWERS[:2]))])
    opened.page.goto(f"{opened.url}/runs/{folder.path.name}/{episode}#c2")
    expect(opened.page.locator("#frames details")).to_have_count(0)
    opened.page.get_by_role("link", name="Raw frames").click()
    expect(opened.page.locator("#frames details")).to_have_count(4)
    assert opened.problems == []


def test_a_run_that_goes_on_updates_itself(opened: Viewer, bench_home: Path, expect_soon: None) -> None:
    slots = [planned("first"), planned("second")]
    with RunFolder.create(run_info(*slots)) as folder:
        play(folder, slots[0], Episode())
        opened.page.goto(f"{opened.url}/runs/{folder.path.name}")
        expect(opened.page.get_by_text("1 of 2")).to_be_visible()
        play(folder, slots[1], Episode())
        expect(opened.page.get_by_text("2 of 2")).to_be_visible()
        expect(opened.page.get_by_role("link", name="second")).to_be_visible()
    assert opened.problems == []


def test_an_update_takes_away_neither_a_click_nor_the_focus(
    opened: Viewer, bench_home: Path, expect_soon: None
) -> None:
    """A click is lost when the button was replaced between the press and the release."""
    slots = [planned("first"), planned("second"), planned("third")]
    page = opened.page
    with RunFolder.create(run_info(*slots)) as folder:
        play(folder, slots[0], Episode())
        page.goto(f"{opened.url}/runs/{folder.path.name}")
        page.get_by_role("button", name="Stop the run").hover()
        page.mouse.down()
        play(folder, slots[1], Episode())
        expect(page.get_by_text("2 of 3")).to_be_visible()
        with page.expect_event("dialog"):
            page.mouse.up()
        assert opened.problems.pop().startswith("Stop this run?")
        link = page.get_by_role("link", name="first", exact=True)
        link.focus()
        play(folder, slots[2], Episode())
        expect(page.get_by_text("3 of 3")).to_be_visible()
        expect(link).to_be_focused()
    assert opened.problems == []


def test_an_update_leaves_what_was_typed(opened: Viewer, bench_home: Path, expect_soon: None) -> None:
    slots = [planned("first"), planned("second"), planned("third")]
    page = opened.page
    with RunFolder.create(run_info(*slots)) as folder:
        play(folder, slots[0], Episode())
        page.goto(f"{opened.url}/runs/{folder.path.name}")
        page.locator("details.annotate > summary").click()
        page.locator("[name=tags]").fill("baseline")
        page.locator("form.filter [name=q]").fill("fir")
        note = page.locator("[name=note]")
        note.focus()
        page.keyboard.type("half a note")
        play(folder, slots[1], Episode())
        expect(page.get_by_text("2 of 3")).to_be_visible()
        expect(note).to_be_focused()
        for name, text in (("tags", "baseline"), ("q", "fir"), ("note", "half a note")):
            expect(page.locator(f"#live [name={name}]")).to_have_value(text)
    assert opened.problems == []


def test_an_update_leaves_what_was_chosen(opened: Viewer, bench_home: Path, expect_soon: None) -> None:
    page, reason = opened.page, opened.page.locator("#review textarea")
    with RunFolder.create(run_info(planned())) as folder:
        episode = begin(folder, planned())

        def call(number: int, answer: str) -> None:
            folder.recording.store_frame(episode, 1, "client", request(number, "open", {"door": number}))
            folder.recording.store_frame(
                episode, 1, "server", response(number, answer, is_error=answer == "no")
            )

        for number in range(4):
            call(number, "no" if number == 2 else "yes")
        page.goto(f"{opened.url}/runs/{folder.path.name}/{episode}")
        reason.fill("it guesses")
        page.locator("#review input[value=bad]").check()
        page.get_by_role("link", name="Raw frames").press("Enter")
        frames = page.locator("#frames details")
        expect(frames).to_have_count(8)
        page.locator("[data-show=error]").press("Enter")
        turns = page.locator("section.turn:visible")
        expect(turns).to_have_count(1)
        call(4, "no")
        expect(turns).to_have_count(2)  # what is new is sifted, too
        expect(page.locator("details.call")).to_have_count(5)
        expect(reason).to_have_value("it guesses")
        expect(page.locator("#review input[value=bad]")).to_be_checked()
        expect(page.locator("[data-show=error]")).to_have_attribute("aria-pressed", "true")
        expect(frames).to_have_count(8)
    assert opened.problems == []


def test_words_are_found_in_any_alphabet(opened: Viewer, bench_home: Path, expect_soon: None) -> None:
    """A capital I with a dot is two characters in lower case."""
    calls = [("search", {"q": "a"}, f"{'İ' * 40} (Köy)"), ("search", {"q": "b"}, "none")]
    folder, (episode,) = record([(planned(), Episode(calls))])
    opened.page.goto(f"{opened.url}/runs/{folder.path.name}/{episode}")
    opened.page.locator("[data-find]").fill("(köy)")
    expect(opened.page.locator(".turn:visible")).to_have_count(1)
    marked = "[...CSS.highlights.get('found')].map((one) => one.toString())"
    assert opened.page.evaluate(marked) == ["(Köy)"]
    assert opened.problems == []


def test_dark_is_chosen_and_kept(opened: Viewer, expect_soon: None) -> None:
    def background() -> str:
        return str(opened.page.evaluate("getComputedStyle(document.body).backgroundColor"))

    light = background()
    opened.page.get_by_role("button", name="Switch between light and dark").click()
    dark = background()
    assert light != dark
    opened.page.reload()
    assert background() == dark
    opened.page.emulate_media(color_scheme="dark")
    assert background() == dark


def test_static_pages_open_from_a_disk(
    browser: Browser, bench_home: Path, tmp_path: Path, expect_soon: None
) -> None:
    record([(planned(), Episode(ANSWERS))])
    Bench(bench_home).run("view", "--export", tmp_path / "site")
    page = browser.new_page()
    page.set_default_timeout(PATIENCE_MS)
    problems: list[str] = []
    page.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
    page.goto((tmp_path / "site" / "index.html").as_uri())
    page.locator("table a").first.click()
    page.locator("td.task a").first.click()
    page.wait_for_url("**/episodes/*", wait_until="load")
    page.keyboard.press("e")
    expect(page.locator("details.call[open]")).to_have_count(0)
    page.close()
    assert problems == []


def test_the_task_and_its_score_stay_in_view(opened: Viewer, bench_home: Path, expect_soon: None) -> None:
    folder, (episode,) = record([(planned("a"), Episode(ANSWERS, 0.5))])
    page = opened.page
    page.emulate_media(reduced_motion="reduce")  # links scroll at once
    for width in (1280, 400):
        page.set_viewport_size({"width": width, "height": 900})
        page.goto(f"{opened.url}/runs/{folder.path.name}/{episode}")
        page.keyboard.press("e")
        page.keyboard.press("e")
        page.evaluate("scrollTo(0, 2000)")
        for shown in (page.get_by_role("heading", name="a", exact=True), page.locator(".headline .badge")):
            expect(shown).to_be_in_viewport()
        page.goto(f"{page.url.partition('#')[0]}#c15")
        expect(page.locator("#c15 > summary")).to_be_in_viewport()
        top, covered = (page.locator(one).bounding_box() for one in ("#c15", ".headline"))
        assert top and covered
        assert top["y"] >= covered["y"] + covered["height"]
    page.set_viewport_size({"width": 1280, "height": 400})  # there it would cover most of the page
    assert page.evaluate("getComputedStyle(document.querySelector('.headline')).position") == "static"
    assert opened.problems == []


TAKEN = """async () => {
    for (let times = 0; times < 3000; times++) {
        const text = await navigator.clipboard.readText();
        if (text) { await navigator.clipboard.writeText(""); return text; }
        await new Promise(resolve => setTimeout(resolve, 20));
    }
}"""


def test_a_conversation_can_be_copied(opened: Viewer, bench_home: Path, expect_soon: None) -> None:
    path, _ = talked()
    page = opened.page
    opened.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(opened.url + path)

    def copied() -> str:
        """Return the clipboard as soon as it is not empty, and empty it."""
        return str(page.evaluate(TAKEN))

    page.evaluate("navigator.clipboard.writeText('')")

    menu = page.locator(".menu")
    for name in ("Conversation, as Markdown", "Id", "Address"):
        menu.locator("summary").click()
        menu.get_by_text(name, exact=True).click()
        expect(menu).not_to_have_attribute("open", "")
        text = copied()
        episode = path.rpartition("/")[2]
        wanted = {"Id": episode, "Address": f"{opened.url}/episodes/{episode}"}.get(name)
        assert text == wanted or (wanted is None and "## Turn 2\n\nbeside\n\nCall" in text), text
    page.get_by_role("link", name="Copy the text of turn 4").press("Enter")
    assert copied() == "Here it is."
    menu.locator("summary").click()
    page.keyboard.press("Escape")
    expect(menu).not_to_have_attribute("open", "")
    page.get_by_role("button", name="user turns 3").click()
    expect(page.locator(".turn:visible")).to_have_count(3)
    assert opened.problems == []


def test_an_error_is_not_copied(opened: Viewer, bench_home: Path, expect_soon: None) -> None:
    path, _ = talked()
    page = opened.page
    opened.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(opened.url + path)
    page.evaluate("navigator.clipboard.writeText('before')")
    page.route("**/markdown", lambda route: route.abort())
    page.locator(".menu summary").click()
    page.locator(".menu").get_by_text("Conversation, as Markdown", exact=True).click()
    expect(page.get_by_text("not copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == "before"


def test_paper_has_what_is_folded_on_the_screen(opened: Viewer, bench_home: Path, expect_soon: None) -> None:
    folder, (episode,) = record([(planned("a"), Episode(ANSWERS))])
    page = opened.page
    page.goto(f"{opened.url}/runs/{folder.path.name}/{episode}")
    page.evaluate(
        "addEventListener('beforeprint', () => { window.printed = document.querySelectorAll('.call[open]').length; })"
    )
    page.pdf()
    assert page.evaluate("window.printed") == len(ANSWERS)
    expect(page.locator("details.call[open]")).to_have_count(1)  # as before
    page.emulate_media(media="print")
    for hidden in (".menu", ".top", ".sift", ".outline"):
        expect(page.locator(hidden)).not_to_be_visible()
    assert opened.problems == []


def test_what_runs_now_is_listed_and_updates(opened: Viewer, bench_home: Path, expect_soon: None) -> None:
    page = opened.page
    page.goto(f"{opened.url}/")
    expect(page.get_by_text("No recordings yet")).to_be_visible()
    with RunFolder.create(run_info(planned("first"), planned("second"))) as folder:
        episode = begin(folder, planned("first"))
        row = page.get_by_role("region", name="Table: Running now").locator("tbody tr")
        expect(row).to_contain_text("first")
        expect(row).to_contain_text("none yet")
        folder.recording.store_frame(episode, 1, "client", request(1, "open_door", {}))
        expect(row).to_contain_text("open_door for")
        folder.recording.store_frame(episode, 1, "server", response(1, "open"))
        expect(row).to_contain_text("answered")
        page.get_by_role("link", name="first").click()
        expect(page.locator(".headline")).to_contain_text("1 call")
        expect(page.locator(".headline .badge")).to_contain_text("running")
        page.goto(f"{opened.url}/runs/{folder.path.name}")
        expect(row).to_contain_text("open_door")
    assert opened.problems == []
