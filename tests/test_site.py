"""The documentation site: built strictly, every link leads somewhere, and nothing comes from another host."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.support import ROOT

pytestmark = pytest.mark.system

DOCUMENTED = ("servers", "recorder", "clients", "plugins", "bridge", "trainer")
LOADED = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
    "embed": "src",
}
"""Attributes by which a page loads something without a click; and `link`, but for these relations."""
NOT_LOADED = {"canonical", "prev", "next", "alternate"}


class Page(HTMLParser):
    """A built page: its ids, what it links to, and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.ids |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if tag in LOADED and LOADED[tag] in found:
            self.loads.append(found[LOADED[tag]])
        if tag == "link" and not NOT_LOADED & set(found.get("rel", "").split()):
            self.loads.append(found.get("href", ""))


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "zensical", "build", "--strict"]
    environ = {"PATH": os.environ["PATH"], "NO_COLOR": "1"}
    return subprocess.run(argv, cwd=folder, env=environ, capture_output=True, text=True, timeout=600)


def test_every_page_is_in_the_navigation() -> None:
    navigation = json.dumps(tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"])
    listed = re.findall(r'"([^"]+\.md)"', navigation)
    present = [str(file.relative_to(ROOT / "docs")) for file in (ROOT / "docs").rglob("*.md")]
    assert sorted(listed) == sorted(present)


def test_the_site_is_whole_and_loads_nothing_from_other_hosts(tmp_path: Path) -> None:
    """One test, since the build takes seconds: it reads every module of the packages in the reference."""
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    shutil.copy(ROOT / "zensical.toml", tmp_path)
    for name in DOCUMENTED:
        (tmp_path / name).symlink_to(ROOT / name)
    done = build(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    site = tmp_path / "site"
    pages = {file: Page(file.read_text()) for file in site.rglob("*.html")}
    links_and_anchors_lead_somewhere(site, pages)
    nothing_comes_from_other_hosts(site, pages)
    reference_and_search_have_public_names(site, pages)


def links_and_anchors_lead_somewhere(site: Path, pages: dict[Path, Page]) -> None:
    assert len(pages) > 20
    for file, page in pages.items():
        if file.name == "404.html":  # shown at any address, so its links begin with that of the site
            continue
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                assert parts.scheme in ("https", "http", "mailto"), (file, link)
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            target = target / "index.html" if target.is_dir() else target
            assert target.is_file(), (file, link)
            assert target.is_relative_to(site), (file, link)
            if parts.fragment and target in pages:
                ids = pages[target].ids
                assert unquote(parts.fragment) in ids or parts.fragment.startswith("__"), (file, link)


def nothing_comes_from_other_hosts(site: Path, pages: dict[Path, Page]) -> None:
    for file, page in pages.items():
        for address in page.loads:
            assert not urlsplit(address).netloc, (file, address)
        assert "mermaid" not in file.read_text(), "its script would be loaded from another host"
    for file in site.rglob("*.css"):
        for address in re.findall(r"(?:url\(|@import\s+)[\"']?([^\"')\s]+)", file.read_text()):
            assert not urlsplit(address).netloc or address.startswith("data:"), (file, address)


def reference_and_search_have_public_names(site: Path, pages: dict[Path, Page]) -> None:
    ids = set().union(*(page.ids for page in pages.values()))
    for name in (
        "mcp_bench.api.record",
        "mcp_bench.trainer.api.serve",
        "mcp_bench.servers.sdk.Benchmark.open",
        "mcp_bench.plugins.sdk.Agent.prepare",
        "mcp_bench.recorder.runs.reader.RunReader.episodes",
    ):
        assert name in ids
    index = "".join(file.read_text() for file in site.rglob("search*.js*"))
    assert "What keeps an agent from its grades".lower() in index.lower()
    assert "RunReader" in index


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "[lost](no-such-page.md), [lost](other.md#no-such-anchor)",
            ["page does not exist", "anchor does not exist"],
        ),
        ("::: no_such_package.module", ["no_such_package"]),
    ],
    ids=["links", "module"],
)
def test_what_leads_nowhere_fails_the_build(tmp_path: Path, text: str, found: list[str]) -> None:
    config = (ROOT / "zensical.toml").read_text()
    (tmp_path / "zensical.toml").write_text(
        re.sub(r"^nav = \[.*?^\]$", "", config, flags=re.DOTALL | re.MULTILINE)
    )
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text(f"# A page\n\n{text}\n")
    (tmp_path / "docs" / "other.md").write_text("# Another\n")
    done = build(tmp_path)
    assert done.returncode != 0, done.stdout + done.stderr
    for problem in found:
        assert problem in done.stdout + done.stderr
