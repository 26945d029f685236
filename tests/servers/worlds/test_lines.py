"""Lines that tools show have the numbers that grep gives them."""

import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_bench.servers.worlds.lines import lines_of

pytestmark = pytest.mark.component

ODD = "\n\r\f\v\x1c\x85\u2028\u2029 a"
"""Newlines, and what `str.splitlines` takes for one."""


@given(st.text(ODD))
def test_only_newlines_end_lines(text: str) -> None:
    found = lines_of(text)
    assert "".join(found) == text and all(found)
    assert len(found) == text.count("\n") + (not text.endswith("\n") and text != "")


def test_numbers_are_those_of_grep() -> None:
    text = "one\ftwo\nthree\u2028four\r\nfive\n\nlast"
    grep = shutil.which("grep")
    assert grep is not None
    done = subprocess.run(
        [grep, "-na", ""], input=text.encode(), capture_output=True, check=True, env={"LC_ALL": "C"}
    )
    numbered = [f"{number}:{line}" for number, line in enumerate(lines_of(text), 1)]
    assert "".join(numbered) + "\n" == done.stdout.decode()
