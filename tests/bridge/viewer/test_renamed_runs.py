"""A run whose folder has another name than the run: its pages lead to its episodes, and back."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.pages.viewer import client
from tests.support.recorded import Episode, planned, record

pytestmark = pytest.mark.component


def test_links_lead_into_a_folder_that_was_renamed(bench_home: Path) -> None:
    slots = [planned(name) for name in ("a", "b")]
    folder, (first, _) = record([(slot, Episode((("look", {}, "x"),), 0.5)) for slot in slots])
    folder.path.rename(folder.path.with_name("run_renamed"))
    viewed = client()
    for page in ("/", "/runs/run_renamed", "/grid", "/failures", "/tools", f"/runs/run_renamed/{first}"):
        links = set(re.findall(r'href="(/runs/[^"#]*)', viewed.get(page).text))
        assert links or page == "/tools"
        assert {viewed.get(link).status_code for link in links} <= {200}, page
    buttons = re.findall(r'class="button" href="(/[^"]*)', viewed.get(f"/runs/{folder.id}").text)
    assert len(buttons) == 4
    for button in buttons:
        assert folder.id in viewed.get(button).text, button
