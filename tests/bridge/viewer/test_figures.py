"""Figures on the pages of the viewer: sizes with their units, and scores in little room."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from mcp_bench.api import open_home
from tests.support.pages.html_page import parse
from tests.support.pages.viewer import client
from tests.support.recorded import Episode, planned, record

pytestmark = pytest.mark.component


def test_a_small_image_has_a_size_in_bytes(bench_home: Path) -> None:
    drawing = {"type": "image", "data": base64.b64encode(b"<svg/>").decode(), "mimeType": "image/svg+xml"}
    folder, (episode,) = record([(planned(), Episode((("draw", {}, [drawing]),)))])
    assert "Image, image/svg+xml, 6 bytes<" in client().get(f"/runs/{folder.path.name}/{episode}").text


def test_a_partial_score_near_one_is_no_zero(bench_home: Path, tmp_path: Path) -> None:
    """Imported grades may be so, without being strict."""
    said = [{"role": "user", "content": "Do it."}, {"role": "assistant", "content": "Done."}]
    row = {"messages": said, "task": "t", "split": "train", "partial": 0.997, "strict": False}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row))
    open_home().import_(tmp_path / "rows.jsonl", agent="helper", benchmark="desk")
    found = parse(client().get("/grid").text)
    assert [one.text for one in found.all("a") if "cell" in one.attributes.get("class", "")] == [".99"]
