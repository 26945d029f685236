"""The lock file of the agents that npm installs is whole, or `npm ci` refuses to install any of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

LOCK = Path(__file__).parent / "node" / "package-lock.json"


def test_every_platform_has_its_packages_in_the_lock() -> None:
    packages = json.loads(LOCK.read_text(encoding="utf-8"))["packages"]
    names = {path.rpartition("node_modules/")[2] for path in packages}
    wanted = {name for package in packages.values() for name in package.get("optionalDependencies", {})}
    assert wanted - names == set(), "`npm install` leaves out what its registry lacks: add these by hand"
