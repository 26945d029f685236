"""Take the pictures of docs/data/viewer.md: an episode of the oracle in `mcp-bench view`, by Chromium.

.venv/bin/python benchmarks/viewer_picture.py docs/images/viewer.png
.venv/bin/python benchmarks/viewer_picture.py docs/images/viewer-outline.png outline
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

TASK = "operations-equipment-request.4.dev.0"
WIDTH, HEIGHT = 1280, 860


def main(out: Path, outline: bool = False) -> None:
    program = [sys.executable, "-m", "mcp_bench.bridge.cli.root"]
    with tempfile.TemporaryDirectory() as home:
        environ = {**os.environ, "MCP_BENCH_HOME": home}
        record = ["record", "--agent", "oracle", "--task", TASK, "--isolation", "none"]
        if outline:
            record += ["--agent-option", "slips=0.3"]
        subprocess.run([*program, *record], env=environ, check=True)
        shown = subprocess.run(
            [*program, "show", "--run", next((Path(home) / "runs").glob("run_*")).name, "--json"],
            env=environ,
            check=True,
            capture_output=True,
        )
        (episode,) = json.loads(shown.stdout)
        command = [*program, "view", "--no-browser", "--port", "0"]
        with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) as viewer:
            assert viewer.stdout is not None
            said = [viewer.stdout.readline() for _ in range(3)]
            url, file = said[0].split(" at ")[1].split("/ ")[0], said[2].partition(": ")[2].strip()
            try:
                take(out, url, file, f"{url}/runs/{episode['run']}/{episode['id']}", outline)
            finally:
                viewer.terminate()


def take(out: Path, url: str, file: str, address: str, outline: bool) -> None:
    """Save a picture of one page."""
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=arguments)
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        page.set_default_timeout(120_000)
        page.goto(f"file://{file}")
        page.wait_for_url(f"{url}/")
        page.goto(address)
        if outline:
            page.keyboard.press("o")
            page.get_by_role("button", name="errors").click()
            page.evaluate("scrollTo(0, 0)")
        else:
            page.get_by_role("button", name="When did each become true").click()
            page.get_by_role("heading", name="By replay").wait_for()
            page.locator("aside").evaluate("box => { box.scrollTop = 0; }")
        page.screenshot(path=out)
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), "outline" in sys.argv[2:])
