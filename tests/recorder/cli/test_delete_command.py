"""`mcp-bench delete` asks, says what goes, and deletes nothing outside the home."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mcp_bench.recorder.cli.delete import delete
from mcp_bench.recorder.cli.verify import verify
from mcp_bench.recorder.errors import StorageError
from mcp_bench.servers.errors import WrongUseError
from tests.support.recorded import Episode, planned, record

pytestmark = pytest.mark.component

Invoke = Callable[..., Result]


class Terminal(CliRunner):
    """Runs commands as on a terminal: standard input is one."""

    def invoke(self, *args: object, **rest: object) -> Result:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True, raising=False)
            return super().invoke(*args, **rest)  # type: ignore[arg-type]


def test_it_says_what_goes_and_asks(bench_home: Path) -> None:
    folder, _ = record([(planned("a"), Episode()), (planned("b"), Episode())])
    refused = Terminal().invoke(delete, [folder.id], input="n\n")
    assert refused.exit_code == 1 and folder.path.exists()
    assert f"{folder.id}  oracle on agentdojo, 2 episodes, " in refused.stderr
    assert "kB" in refused.stderr
    agreed = Terminal().invoke(delete, [folder.id], input="y\n")
    assert agreed.exit_code == 0, agreed.exception
    assert agreed.stdout.startswith(f"deleted {folder.id}  oracle on agentdojo, 2 episodes")
    assert not folder.path.exists()


def test_without_a_terminal_it_needs_yes(invoke: Invoke) -> None:
    folder, _ = record([(planned(), Episode())])
    error = invoke(delete, folder.id).exception
    assert isinstance(error, WrongUseError) and "needs --yes" in str(error)
    assert folder.path.exists()


def test_several_runs_by_their_prefixes(invoke: Invoke) -> None:
    ids = ["run_0aaa1", "run_0bbb1", "run_0ccc1"]
    for id_ in ids:
        record([(planned(), Episode())], id=id_)
    done = invoke(delete, "run_0a", "run_0b", "--yes")
    assert done.exit_code == 0 and len(done.stdout.splitlines()) == 2
    assert invoke(verify).exit_code == 0


def test_a_damaged_run_can_be_deleted(invoke: Invoke) -> None:
    folder, _ = record([(planned(), Episode())])
    (folder.path / "recordings.db").write_bytes(b"not a database, " * 99)
    done = invoke(delete, folder.id, "--yes")
    assert done.exit_code == 0 and "damaged" in done.stdout
    assert not folder.path.exists()


class TestLinks:
    """A link in the home, or in place of a part of it, leads nothing outside to be deleted or changed."""

    @pytest.fixture
    def outside(self, tmp_path: Path) -> Path:
        folder = tmp_path / "outside"
        folder.mkdir()
        (folder / "precious").write_text("precious")
        (folder / "lock").write_text("precious, too")
        return folder

    def kept(self, outside: Path) -> bool:
        return {path.name: path.read_text() for path in outside.iterdir()} == {
            "precious": "precious", "lock": "precious, too",
        }  # fmt: skip

    def test_in_a_run(self, invoke: Invoke, outside: Path) -> None:
        folder, _ = record([(planned(), Episode())])
        (folder.path / "logs" / "link").symlink_to(outside, target_is_directory=True)
        (folder.path / "file").symlink_to(outside / "precious")
        assert invoke(delete, folder.id, "--yes").exit_code == 0
        assert self.kept(outside) and not folder.path.exists()

    def test_in_place_of_a_run(self, invoke: Invoke, outside: Path) -> None:
        folder, _ = record([(planned(), Episode())])
        (folder.path / "recordings.db").rename(outside / "recordings.db")
        (folder.path.parent / "run_link").symlink_to(outside, target_is_directory=True)
        error = invoke(delete, "run_link", "--yes").exception
        assert isinstance(error, StorageError) and "is a link" in str(error)
        (outside / "recordings.db").unlink()
        assert self.kept(outside)

    def test_in_place_of_the_lock(self, invoke: Invoke, outside: Path) -> None:
        folder, _ = record([(planned(), Episode())])
        (folder.path / "lock").unlink()
        (folder.path / "lock").symlink_to(outside / "lock")
        assert isinstance(invoke(delete, folder.id, "--yes").exception, StorageError)
        assert self.kept(outside)

    def test_in_place_of_the_folder_for_removal(
        self, invoke: Invoke, outside: Path, bench_home: Path
    ) -> None:
        folder, _ = record([(planned(), Episode())])
        (bench_home / "removing").symlink_to(outside, target_is_directory=True)
        error = invoke(delete, folder.id, "--yes").exception
        assert isinstance(error, StorageError) and "is a link" in str(error)
        assert self.kept(outside) and folder.path.exists()
        assert invoke(verify).exit_code == 0


def test_what_a_killed_delete_left_goes_with_the_next(invoke: Invoke, bench_home: Path) -> None:
    folder, _ = record([(planned(), Episode())])
    left = bench_home / "removing" / "run_old"
    left.mkdir(parents=True)
    (left / "recordings.db").write_text("part")
    assert invoke(delete, folder.id, "--yes").exit_code == 0
    assert sorted(path.name for path in bench_home.iterdir()) == ["key", "ledger", "runs"]
