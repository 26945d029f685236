"""Importing the API is cheap, and changes nothing."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.component

HEAVY = (
    "pandas",
    "polars",
    "numpy",
    "mcp",
    "torch",
    "anyio",
    "httpx2",
    "starlette",
    "IPython",
    "click",
    "rich",
)


@pytest.mark.parametrize("module", ["mcp_bench.api", "mcp_bench.trainer.api", "mcp_bench.plugins.sdk"])
def test_nothing_heavy_is_imported(module: str) -> None:
    light = {"mcp_bench.trainer.api": ("numpy", "anyio", "click")}.get(module, ())
    code = f"import sys, {module}; print([m for m in {HEAVY} if m in sys.modules and m not in {light}])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
