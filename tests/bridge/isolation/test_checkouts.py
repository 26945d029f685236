"""A checkout in a folder that agents can read, such as /usr/local/src, shows them none of its files."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mcp_bench.bridge.isolation.checkouts import readable_samples, sources
from tests.support.levels import each_level
from tests.support.requirements import skip

pytestmark = pytest.mark.system

TOP = Path("/usr/local/src")
READS = """
Server().connect()
found = []
for folder, folders, files in os.walk(@TOP@):
    for name in files:
        try:
            open(os.path.join(folder, name)).read()
            found.append(os.path.relpath(os.path.join(folder, name), @TOP@))
        except OSError:
            pass
print(json.dumps(sorted(found)))
"""


@pytest.fixture
def below_usr() -> Iterator[Path]:
    if not os.access(TOP, os.W_OK):
        skip("root", f"only root can write to {TOP}")
    with tempfile.TemporaryDirectory(dir=TOP, prefix="mcp-bench-test-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def checked_out(top: Path, name: str) -> Path:
    """Make a checkout with a folder that can be imported from."""
    for place in (
        ".git/HEAD",
        ".git/objects/00/1",
        "tests/test_grader.py",
        "src/module.py",
        "pyproject.toml",
    ):
        (top / name / place).parent.mkdir(parents=True, exist_ok=True)
        (top / name / place).write_text("the answer\n")
    return top / name


@each_level()
def test_no_file_of_a_checkout_is_readable(
    bench, script: Callable[[str], str], below_usr: Path, level: str
) -> None:
    """Checkouts: on PYTHONPATH, a work tree of another, installed editable, and built from an archive."""
    plain, main, edited = (checked_out(below_usr, name) for name in ("plain", "main", "edited"))
    tree = checked_out(below_usr, "tree")
    (tree / ".git").rename(main / ".git/worktrees")
    (main / ".git/worktrees/commondir").write_text("..\n")
    (tree / ".git").write_text(f"gitdir: {main}/.git/worktrees\n")
    (below_usr / "kit.whl").write_text("the answer\n")
    for name, url in (("edited", edited.as_uri()), ("built", (below_usr / "kit.whl").as_uri())):
        about = plain / f"src/{name}-1.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
        (about / "direct_url.json").write_text(json.dumps({"url": url}))
    (below_usr / "public").write_text("not of ours\n")
    path = [bench.environment()["PYTHONPATH"], str(plain / "src"), str(tree / "src")]
    bench.environ["PYTHONPATH"] = os.pathsep.join(path)
    bench.run(
        "record", "--agent", "script", "--agent-option", script(READS.replace("@TOP@", repr(str(below_usr)))),
        "--benchmark", "notebook", "--task", "colours", "--isolation", level,
    )  # fmt: skip
    (episode,) = bench.rows("select answer, probes from episodes")
    assert json.loads(episode["answer"]) == ["public"]
    assert json.loads(episode["probes"])["checkout"]["passed"]


def test_a_system_folder_is_never_masked(tmp_path: Path) -> None:
    """If somebody keeps /usr/local in git, its history is masked, and its programs stay."""
    for place in (".git/HEAD", "bin/python3", "lib/site-packages/kit.py"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).touch()
    found = sources(frozenset({str(tmp_path / "lib/site-packages")}), (str(tmp_path / "bin"),))
    assert str(tmp_path) not in found and str(tmp_path / ".git") in found
    assert str(tmp_path / ".git/HEAD") in readable_samples(found)


def test_a_shared_clone_masks_what_it_borrows_from(tmp_path: Path) -> None:
    checkout, other = checked_out(tmp_path, "clone"), checked_out(tmp_path, "other")
    (checkout / ".git/objects/info").mkdir()
    (checkout / ".git/objects/info/alternates").write_text("../../../other/.git/objects\n")
    found = sources(frozenset({str(checkout / "src")}), ())
    assert {str(checkout), str(other / ".git/objects")} <= found
