"""As root, an agent could read the machine's private keys beside the certificates that it needs."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.levels import each_level
from tests.support.requirements import skip

pytestmark = pytest.mark.system

KEYS = Path("/etc/ssl/private")
READS = """
Server().connect()
found = []
for place in @PLACES@:
    try:
        found.append(len(os.listdir(place)) > 0 if os.path.isdir(place) else open(place).read(6))
    except OSError:
        found.append("closed")
print(json.dumps(found))
"""


@pytest.fixture
def key() -> Iterator[Path]:
    if not os.access(KEYS, os.W_OK):
        skip("root", f"only root can write to {KEYS}, where it is")
    with tempfile.NamedTemporaryFile(dir=KEYS, prefix="mcp-bench-test-") as file:
        file.write(b"secret")
        file.flush()
        yield Path(file.name)


@each_level()
def test_no_private_key_is_readable(bench, script: Callable[[str], str], key: Path, level: str) -> None:
    places = [str(key), str(next(Path("/etc/ssl").glob("*.cnf"), "/etc/ssl"))]
    bench.run(
        "record", "--agent", "script", "--agent-option", script(READS.replace("@PLACES@", repr(places))),
        "--benchmark", "notebook", "--task", "colours", "--isolation", level,
    )  # fmt: skip
    (episode,) = bench.rows("select answer from episodes")
    read, settings = json.loads(episode["answer"])
    assert read == "closed" and settings != "closed"
