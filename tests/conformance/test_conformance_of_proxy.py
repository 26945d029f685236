"""The official suite finds no difference between a server and our proxy in front of it."""

import json
import sqlite3
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.conformance.conformance_suite import MCP_BENCH, REVISIONS, Start, failures, run_suite
from tests.support.http.http_log import logged_messages
from tests.support.sample import sampled

pytestmark = pytest.mark.contract

EXTENSIONS = "tasks-"
"""Scenarios of an extension that the SDK lacks. The suite does not score them either."""


@pytest.mark.parametrize("revision", sampled(REVISIONS, REVISIONS[-1:]))
def test_the_proxy_changes_no_check(revision: str, start: Start, tmp_path: Path, bench_home: Path) -> None:
    log = tmp_path / "log"
    direct = start("tests.support.conformance.conformance_server", tmp_path / "unused")
    behind = start("tests.support.conformance.conformance_server", log)
    proxied = start(MCP_BENCH, "proxy", "--http", "0", behind)
    with ThreadPoolExecutor() as both:
        found = [
            both.submit(run_suite, url, revision, tmp_path / name)
            for name, url in (("direct", direct), ("proxied", proxied))
        ]
        alone, through = (job.result() for job in found)
    scored = [check for check in failures(alone) if not check.scenario.startswith(EXTENSIONS)]
    assert scored == [], "the test server lacks something that the suite requires"
    assert [check.key for check in through] == [check.key for check in alone]
    differing = [
        f"{a.scenario} / {a.id}: {a.status} -> {b.status} {b.message}"
        for a, b in zip(alone, through, strict=True)
        if a.status != b.status
    ]
    assert differing == []
    recorded = frames(bench_home)
    client, server, broken = (Counter(messages) for messages in logged_messages(log))
    assert recorded["client"] == client
    unrecorded = server - recorded["server"]
    # the suite reads only the status of some answers and disconnects, so those never passed
    passed = [message for message in unrecorded if not abandoned(json.loads(message))]
    assert passed == [], "messages that passed the proxy unrecorded"
    assert not recorded["server"] - server - broken, "messages that no server sent"


def frames(home: Path) -> dict[str, Counter[bytes]]:
    """Return the bodies of all recorded frames by direction."""
    (path,) = home.glob("runs/*/recordings.db")
    found: dict[str, Counter[bytes]] = {"client": Counter(), "server": Counter()}
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        for direction, body in db.execute("select direction, body from frames"):
            found[direction][body if isinstance(body, bytes) else body.encode()] += 1
    return found


def abandoned(message: dict) -> bool:
    """Return whether the suite may disconnect before it reads this: a handshake, a list, or an error."""
    return "error" in message or bool({"protocolVersion", "tools"} & message.get("result", {}).keys())
