"""axe-core finds nothing on any page of the viewer, in light and dark, narrow and wide; focus can be seen."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from mcp_bench.bridge.viewer.training.folders import place_of
from tests.support.bench_commands import Bench
from tests.support.requirements import needs
from tests.support.training_files import training_home
from tests.support.viewer import hostile_home

CHROMIUM = shutil.which("chromium")
AXE = Path(__file__).parents[2] / "node" / "node_modules" / "axe-core" / "axe.min.js"
pytestmark = [
    pytest.mark.system,
    needs("chromium", CHROMIUM is not None, "Debian's package chromium is not installed"),
    needs("npm", AXE.is_file(), "run npm ci in tests/node"),
]
PAGES = (
    "/", "/grid", "/compare?a={run}&b={other}", "/tools", "/failures", "/reviews", "/search?q=say", "/training",
    "/data", "{loop}", "{loop}/turns/1", "{sft}", "{rl}", "{data}", "{data}/rows/1", "/runs/{run}",
    "/runs/{run}/{first}", "/side-by-side?a={run}/{first}&b={run}/{second}", "/no-such-page",
)  # fmt: skip
PATIENCE_MS = 60_000
WIDE, NARROW = 1280, 400


@dataclass
class Opened:
    """A viewer over a home with recordings, training and data, and a browser that was let in."""

    url: str
    browser: Browser
    context: BrowserContext
    names: dict[str, str]

    def page(self, scheme: Any, width: int) -> Page:
        context = self.browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=scheme,
            storage_state=self.context.storage_state(),
        )
        context.set_default_timeout(PATIENCE_MS)
        return context.new_page()


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    home = tmp_path_factory.mktemp("seen")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MCP_BENCH_HOME", str(home))
        run, episodes = hostile_home()
        other, _ = hostile_home()
        folders = training_home(home, other, run, episodes)
        names = {name: (place_of(str(path)) or ("",))[0] for name, path in folders.items()}
        names |= {"run": run, "other": other, "first": episodes[0], "second": episodes[1]}
        with (
            Bench(home).start("view", "--no-browser", "--port", "0") as process,
            sync_playwright() as playwright,
        ):
            assert process.stdout is not None
            lines = iter(process.stdout.readline, "")
            url = next(line for line in lines if "viewer is at" in line).split(" at ")[1].split("/ ")[0]
            file = next(line for line in lines if "without a token" in line).partition(": ")[2].strip()
            arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
            context = browser.new_context()
            context.set_default_timeout(PATIENCE_MS)
            page = context.new_page()
            page.goto(f"file://{file}")
            page.wait_for_url(f"{url}/")
            yield Opened(url, browser, context, names)
            browser.close()
            process.terminate()
            process.communicate()


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
        page.goto(opened.url + name.format(**opened.names))
        page.evaluate(axe)
        result = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        assert result["passes"], name
        found += [(name, one["id"], one["nodes"][0]["target"]) for one in result["violations"]]
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
    page.context.close()
    assert found == []


def test_every_focus_can_be_seen(opened: Opened) -> None:
    page = opened.page("light", WIDE)
    page.goto(opened.url + "/runs/{run}/{first}".format(**opened.names))
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
