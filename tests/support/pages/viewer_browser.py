"""`mcp-bench view` in a real browser: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, Dialog, Page, sync_playwright

from tests.support.bench_commands import Bench
from tests.support.requirements import needs

CHROMIUM = shutil.which("chromium")
NEEDS_CHROMIUM = needs("chromium", CHROMIUM is not None, "Debian's package chromium is not installed")
PATIENCE_MS = 60_000


@dataclass
class Viewer:
    """A running `mcp-bench view` and a page of it."""

    url: str
    browser: Browser
    context: BrowserContext
    page: Page
    problems: list[str]
    """What the browser complained about: scripts that failed, rules of the policy that were broken."""
    accepted: list[str]
    """Questions of pages that were answered with yes: those that begin with a word in `accepts`."""
    accepts: tuple[str, ...] = ()

    def watch(self, page: Page) -> Page:
        """Note what goes wrong on a page."""
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("console", lambda said: self.problems.append(said.text) if said.type == "error" else None)
        page.on("dialog", self._answer)
        return page

    def _answer(self, dialog: Dialog) -> None:
        if self.accepts and dialog.message.startswith(self.accepts):
            self.accepted.append(dialog.message)
            dialog.accept()
        else:
            self.problems.append(dialog.message)
            dialog.dismiss()


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start a browser; the context ends it."""
    with sync_playwright() as playwright:
        # Chromium refuses its own sandbox to root
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened_viewer(browser: Browser, home: Path) -> Iterator[Viewer]:
    """Start the viewer over a home, and let a browser in by its file, as a user's browser comes in."""
    with Bench(home).start("view", "--no-browser", "--port", "0", warm=True) as process:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        url = next(line for line in lines if "viewer is at" in line).split(" at ")[1].split("/ ")[0]
        file = next(line for line in lines if "without a token" in line).partition(": ")[2].strip()
        assert Path(file).stat().st_mode & 0o777 == 0o600
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        context.set_default_timeout(PATIENCE_MS)
        found = Viewer(url, browser, context, context.new_page(), [], [])
        found.watch(found.page)
        found.page.goto(f"file://{file}")
        found.page.wait_for_url(f"{url}/")
        yield found
        context.close()
        process.terminate()
        process.communicate()
