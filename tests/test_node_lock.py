"""The lock file of the agents that npm installs is whole, or `npm ci` refuses to install any of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("folder", ["node", "acp_agents"])
def test_every_platform_has_its_packages_in_the_lock(folder: str) -> None:
    lock = Path(__file__).parent / folder / "package-lock.json"
    packages = json.loads(lock.read_text(encoding="utf-8"))["packages"]
    names = {path.rpartition("node_modules/")[2] for path in packages}
    wanted = {name for package in packages.values() for name in package.get("optionalDependencies", {})}
    assert wanted - names == set(), "`npm install` leaves out what its registry lacks: add these by hand"
