"""Tasks stay what they are, byte for byte, as long as `VERSION` does.

The order of random draws is part of a task: even a harmless-looking change of a family, an app or a word
list gives other worlds under the same task ids. `task_digests.json` holds two digests per family, over 2
and over 20 task numbers.

To change tasks on purpose, raise `VERSION` in `version.py`. Then write the file anew (about two minutes):

    .venv/bin/python -m tests.servers.saasworld.test_task_digests
"""

import json
from pathlib import Path

import pytest

from mcp_bench.servers.saasworld.authoring.family import all_families, family_places, load_family
from mcp_bench.servers.saasworld.version import VERSION
from tests.support.saas import digest

pytestmark = pytest.mark.contract

STORED = Path(__file__).with_name("task_digests.json")
COUNTS = [2, pytest.param(20, marks=pytest.mark.full)]
RENEW = "Raise VERSION and renew the file (see the top of this module), or take back what changed the tasks."


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("family", family_places())
def test_tasks_keep_their_digest(family: str, count: int) -> None:
    stored = json.loads(STORED.read_text())["digests"].get(family, {})
    assert digest(load_family(family), range(count)) == stored.get(str(count)), f"{family} changed. {RENEW}"


def test_digests_belong_to_this_version() -> None:
    stored = json.loads(STORED.read_text())
    assert stored["version"] == VERSION, RENEW
    assert sorted(stored["digests"]) == sorted(family_places())


def write() -> None:
    """Write the digests of the tasks as they are now."""
    digests = {f.id: {str(n): digest(f, range(n)) for n in (2, 20)} for f in all_families()}
    STORED.write_text(json.dumps({"version": VERSION, "digests": digests}, indent=1) + "\n")


if __name__ == "__main__":
    write()
