"""axe-core finds nothing on any page of the viewer, in light and dark, narrow and wide; focus can be seen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from mcp_bench.bridge.viewer.training.folders import place_of
from mcp_bench.recorder.runs.annotations import annotate
from mcp_bench.recorder.store.reviews import Reviews
from tests.support.pages.viewer import EVIL, hostile_home, talked
from tests.support.pages.viewer_browser import NEEDS_CHROMIUM, PATIENCE_MS, Viewer, chromium, opened_viewer
from tests.support.requirements import needs
from tests.support.training_files import training_home

AXE = Path(__file__).parents[2] / "node" / "node_modules" / "axe-core" / "axe.min.js"
pytestmark = [
    pytest.mark.system,
    NEEDS_CHROMIUM,
    needs("npm", AXE.is_file(), "run npm ci in tests/node"),
]
PAGES = (
    "/", "/grid", "/compare?a={run}&b={other}", "/tools", "/failures", "/reviews", "/search?q=say", "/training",
    "/data", "{loop}", "{loop}/turns/1", "{improve}", "{sft}", "{rl}", "{data}", "{data}/rows/1", "/runs/{run}",
    "/runs/{run}/{first}", "{talk}", "/side-by-side?a={run}/{first}&b={run}/{second}", "/no-such-page",
)  # fmt: skip
WIDE, NARROW = 1280, 400


@dataclass
class Opened:
    """A viewer over a home with recordings, training and data, each text of them hostile."""

    viewer: Viewer
    names: dict[str, str]

    def page(self, scheme: Any, width: int) -> Page:
        context = self.viewer.browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=scheme,
            storage_state=self.viewer.context.storage_state(),
        )
        context.set_default_timeout(PATIENCE_MS)
        return self.viewer.watch(context.new_page())

    def address(self, name: str) -> str:
        return self.viewer.url + name.format(**self.names)


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    home = tmp_path_factory.mktemp("seen")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MCP_BENCH_HOME", str(home))
        run, episodes = hostile_home()
        other, _ = hostile_home()
        annotate(home / "runs" / run, add=["tag"], note=EVIL)
        Reviews().put(run, episodes[0], "bad", EVIL)
        folders = training_home(home, other, run, episodes)
        names = {name: (place_of(str(path)) or ("",))[0] for name, path in folders.items()}
        names |= {"run": run, "other": other, "first": episodes[0], "second": episodes[1]}
        names["talk"], _ = talked()
        with chromium() as browser, opened_viewer(browser, home) as viewer:
            yield Opened(viewer, names)


@pytest.mark.parametrize(
    ("scheme", "width"),
    [
        ("light", WIDE),
        # the other three differ in colours and line breaks alone
        pytest.param("dark", NARROW, marks=pytest.mark.full),
        pytest.param("light", NARROW, marks=pytest.mark.full),
        pytest.param("dark", WIDE, marks=pytest.mark.full),
    ],
)
def test_axe_finds_nothing(opened: Opened, scheme: str, width: int) -> None:
    page = opened.page(scheme, width)
    axe = AXE.read_text("utf-8")
    found = []
    for name in PAGES:
        page.goto(opened.address(name))
        page.evaluate(axe)
        result = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        assert result["passes"], name
        found += [(name, one["id"], one["nodes"][0]["target"]) for one in result["violations"]]
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
    page.context.close()
    assert found == []
    # the browser notes the one page that is not there; no hostile text ran, opened a dialog or broke the policy
    assert [one for one in opened.viewer.problems if "404" not in one] == []


def test_every_focus_can_be_seen(opened: Opened) -> None:
    page = opened.page("light", WIDE)
    page.goto(opened.address("/runs/{run}/{first}"))
    unseen, reached = [], set()
    for _ in range(40):
        page.keyboard.press("Tab")
        what, outline = page.evaluate(
            "[document.activeElement.outerHTML.slice(0, 120), getComputedStyle(document.activeElement).outlineStyle]"
        )
        reached.add(what)
        if outline == "none":
            unseen.append(what)
    page.context.close()
    assert len(reached) > 25
    assert unseen == []


def test_every_page_can_be_used_by_keyboard(opened: Opened) -> None:
    page = opened.page("light", WIDE)
    focused = "document.activeElement.closest('.here') !== null"
    for name in PAGES:
        page.goto(address := opened.address(name))
        if page.locator("[data-row]:visible").count():
            page.keyboard.press("j")
            assert page.locator(".here").count() == 1, name
            assert page.evaluate(focused), name
        page.keyboard.press("?")
        assert page.get_by_role("dialog").is_visible(), name
        page.keyboard.press("Escape")
        page.keyboard.press("/")
        assert page.evaluate("document.activeElement.type") == "search", name
        page.keyboard.type("u")  # a letter, not a command
        page.keyboard.press("Escape")
        assert page.url == address, name
        with page.expect_navigation():  # up, or, at the top, the same page again
            page.keyboard.press("u")
    page.context.close()
    assert [one for one in opened.viewer.problems if "404" not in one] == []
