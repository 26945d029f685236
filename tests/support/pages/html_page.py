"""Parse a page of HTML with the standard library: elements, text and tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "br", "hr", "img", "link", "input"}


@dataclass
class Element:
    tag: str
    attributes: dict[str, str | None]
    children: list[Element | str] = field(default_factory=list)

    def all(self, tag: str | None = None) -> list[Element]:
        """Return all descendants, or those with one tag, in document order."""
        found = []
        for child in self.children:
            if isinstance(child, Element):
                found += [child] if tag in (None, child.tag) else []
                found += child.all(tag)
        return found

    @property
    def text(self) -> str:
        parts = (child if isinstance(child, str) else child.text for child in self.children)
        return " ".join("".join(parts).split())


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("root", {})
        self._open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, dict(attrs))
        self._open[-1].children.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open[-1].children.append(Element(tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        opened = self._open.pop()
        assert opened.tag == tag, f"<{opened.tag}> is closed by </{tag}>"

    def handle_data(self, data: str) -> None:
        self._open[-1].children.append(data)


def parse(text: str) -> Element:
    """Parse a page. Every element must be closed by its own tag."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    assert len(reader._open) == 1
    return reader.root


def tables(page: Element) -> dict[str, list[dict[str, str]]]:
    """Return the rows of each table by its caption. A row maps columns to cells."""
    found = {}
    for table in page.all("table"):
        columns = [head.text for head in table.all("th")]
        rows = [[cell.text for cell in row.all("td")] for row in table.all("tbody")[0].all("tr")]
        found[table.all("caption")[0].text] = [dict(zip(columns, row, strict=True)) for row in rows]
    return found
