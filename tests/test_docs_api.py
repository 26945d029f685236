"""The examples of docs/start/python.md run, in the page's order, and print what the page shows."""

import doctest
import re
from pathlib import Path

import pytest

from tests.support import ROOT

pytestmark = pytest.mark.system

PAGE = ROOT / "docs" / "start" / "python.md"
BLOCK = re.compile(
    r"(?P<skipped><!-- .*not run -->\n)?^```(?P<language>python|pycon)\n(?P<code>.*?)^```", re.M | re.S
)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def test_the_examples_run_and_print_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MCP_BENCH_ISOLATION", "none")
    names: dict[str, object] = {"__name__": "page"}
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner(optionflags=FLAGS)
    run = 0
    for block in BLOCK.finditer(PAGE.read_text()):
        if block["skipped"]:
            continue
        if block["language"] == "python":
            exec(compile(block["code"], str(PAGE), "exec"), names)
        else:
            test = parser.get_doctest(block["code"], names, "python.md", str(PAGE), 0)
            said: list[str] = []
            runner.run(test, out=said.append, clear_globs=False)
            assert not said, "".join(said)
            names = test.globs
        run += 1
    assert run >= 8
