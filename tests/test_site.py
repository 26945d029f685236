"""The documentation site: built strictly, every link leads somewhere, and nothing comes from another host."""

import json
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


def build(folder: Path, page: str = "", text: str = "") -> subprocess.CompletedProcess[str]:
    """Build the site in a folder, from the checkout's pages; `text` is added to one of them."""
    shutil.copytree(ROOT / "docs", folder / "docs")
    shutil.copy(ROOT / "zensical.toml", folder)
    for name in DOCUMENTED:
        (folder / name).symlink_to(ROOT / name)
    if page:
        with (folder / "docs" / page).open("a") as file:
            file.write(text)
    return subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = build(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {file: Page(file.read_text()) for file in site.rglob("*.html")}


def test_every_page_is_in_the_navigation() -> None:
    navigation = json.dumps(tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"])
    listed = re.findall(r'"([^"]+\.md)"', navigation)
    present = [str(file.relative_to(ROOT / "docs")) for file in (ROOT / "docs").rglob("*.md")]
    assert sorted(listed) == sorted(present)


def test_links_and_anchors_of_built_pages_lead_somewhere(site: Path, pages: dict[Path, Page]) -> None:
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


def test_pages_load_nothing_from_other_hosts(site: Path, pages: dict[Path, Page]) -> None:
    for file, page in pages.items():
        for address in page.loads:
            assert not urlsplit(address).netloc, (file, address)
        assert "mermaid" not in file.read_text(), "its script would be loaded from another host"
    for file in site.rglob("*.css"):
        for address in re.findall(r"(?:url\(|@import\s+)[\"']?([^\"')\s]+)", file.read_text()):
            assert not urlsplit(address).netloc or address.startswith("data:"), (file, address)


def test_reference_and_search_have_the_public_names(site: Path, pages: dict[Path, Page]) -> None:
    ids = set().union(*(page.ids for page in pages.values()))
    for name in (
        "mcp_bench.servers.contracts.Benchmark.open",
        "mcp_bench.plugins.contracts.Agent.prepare",
        "mcp_bench.recorder.store.reader.RunReader.episodes",
    ):
        assert name in ids
    index = "".join(file.read_text() for file in site.rglob("search*.js*"))
    assert "What keeps an agent from its grades".lower() in index.lower()
    assert "RunReader" in index


@pytest.mark.parametrize(
    "text",
    ["\n[lost](no-such-page.md)\n", "\n[lost](data.md#no-such-anchor)\n", "\n::: mcp_bench.no_such_module\n"],
    ids=["page", "anchor", "module"],
)
def test_what_leads_nowhere_fails_the_build(tmp_path: Path, text: str) -> None:
    done = build(tmp_path, "recording.md", text)
    assert done.returncode != 0, done.stdout + done.stderr
