"""The real agents in tests/node, and an environment to run them in."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.requirements import skip

NODE = ROOT / "tests" / "node"
MODULES = NODE / "node_modules"


def node_environ(home: Path) -> dict[str, str]:
    """Return an environment in which `codex`, `claude` and `node` are those of tests/node.

    `home` is HOME. If they are not installed, the test fails; without npm, it is skipped.
    """
    if missing := not_installed():
        if shutil.which("npm") is None:
            skip("npm", "the real agents cannot be installed without it")
        pytest.fail(f"{missing}: run `npm ci` in {NODE}", pytrace=False)
    path = f"{MODULES / '.bin'}:/usr/local/bin:/usr/bin:/bin"
    return {"PATH": path, "HOME": str(home), "LANG": "C.UTF-8"}


def not_installed() -> str | None:
    """Return what is missing or has the wrong version."""
    for package, version in json.loads((NODE / "package.json").read_text())["dependencies"].items():
        try:
            found = json.loads((MODULES / package / "package.json").read_text())["version"]
        except (OSError, ValueError, KeyError):
            return f"{package} {version} is not installed"
        if found != version:
            return f"{package} is installed as {found}, not as {version}"
    return None
