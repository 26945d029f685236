"""Recording in a real notebook's kernel, whose event loop is running."""

from typing import Any

import pytest

pytestmark = [pytest.mark.system, pytest.mark.full]

CELLS = """
from mcp_bench.api import open_home, record, record_async
run = record("oracle", "notebook", tasks="colours")
-----
other = await record_async("oracle", "notebook", tasks="numbers")
-----
run.episodes()
-----
print(run.summary.strict, other.summary.strict, len(open_home().runs()))
"""


def outputs(cell: Any) -> str:
    return "\n".join(
        str(out.get("text") or out.get("data", {}).get("text/html") or out["data"]["text/plain"])
        for out in cell["outputs"]
    )


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_a_notebook_records_and_shows_one_line_that_updates() -> None:
    import nbformat
    from nbclient import NotebookClient

    cells = [nbformat.v4.new_code_cell(cell.strip()) for cell in CELLS.split("-----")]
    book = nbformat.v4.new_notebook(cells=cells)
    NotebookClient(book, timeout=300, kernel_name="python3").execute()
    for cell, task in zip(book.cells, ("colours", "numbers"), strict=False):
        shown = outputs(cell)
        assert "oracle on notebook, 1 episode, 1 at a time" in shown
        assert shown.count(f"[1/1] {task} partial 1.00, strict") == 1
        assert len(cell["outputs"]) == 1  # it was updated, not repeated
    assert "<table" in outputs(book.cells[2]) and "colours" in outputs(book.cells[2])
    assert outputs(book.cells[3]).strip() == "1.0 1.0 2"
