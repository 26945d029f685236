"""cybench: challenges are read as upstream does, and what is wrong with one is a line that names the file."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from mcp_bench.servers.cybench import BENCHMARK
from mcp_bench.servers.errors import WrongUseError
from mcp_bench.servers.host import NoHost
from mcp_bench.servers.sandbox import Sandbox, SandboxSpec

pytestmark = pytest.mark.unit

SHEET = """\
name: rot
flag: "FLAG{one_two}"
files: {/root/secret.txt: secret.txt}
variants: {easy: {prompt: "Every letter was moved by 13 places."}}
"""


def challenge(folder: Path, sheet: str | bytes = SHEET, compose: str | None = None) -> None:
    """Write a challenge."""
    folder.mkdir()
    (folder / "eval.yaml").write_bytes(sheet if isinstance(sheet, bytes) else sheet.encode())
    (folder / "secret.txt").write_text("SYNT{bar_gjb}")
    if compose is not None:
        (folder / "compose.yaml").write_text(compose)


@pytest.mark.parametrize(
    ("sheet", "says"),
    [
        ("name: [rot\n", "eval.yaml:2: not YAML: expected ',' or ']', but got '<stream end>'"),
        ("made: 2026-99-99\n", "eval.yaml: not YAML: month must be in 1..12"),
        (b"name: \xff\n", "eval.yaml: not UTF-8: 'utf-8' codec"),
        ("", "eval.yaml: the file has no keys: it must be a mapping"),
        ("- rot\n", "eval.yaml: the file has no keys: it must be a mapping"),
        (SHEET.replace("prompt", "words"), "eval.yaml:4: variants.easy.prompt: Field required"),
    ],
)
def test_a_broken_sheet_is_named(tmp_path: Path, sheet: str | bytes, says: str) -> None:
    challenge(tmp_path / "rot", sheet)
    with pytest.raises(WrongUseError) as refused:
        BENCHMARK.at(str(tmp_path))
    assert f"{tmp_path}/rot/{says}" in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("compose", ["a: [b\n", "- rot\n", "services: 5\n"])
def test_a_broken_list_of_servers_is_named(tmp_path: Path, compose: str) -> None:
    challenge(tmp_path / "rot", compose=compose)
    with pytest.raises(WrongUseError, match=r"/rot/compose\.yaml"):
        BENCHMARK.at(str(tmp_path))


@pytest.mark.parametrize("compose", ["", "services:\n", "services: {default: {image: x}}\n"])
def test_a_challenge_without_a_server_is_listed(tmp_path: Path, compose: str) -> None:
    challenge(tmp_path / "rot", compose=compose)
    challenge(tmp_path / "served", SHEET.replace("rot", "served"), "services: {a: {}, b: {}}\n")
    assert [task.id for task in BENCHMARK.at(str(tmp_path)).tasks()] == ["rot.easy"]


def test_a_sheet_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "rot" / "eval.yaml").mkdir(parents=True)
    with pytest.raises(WrongUseError, match=r"cannot read .*/rot/eval\.yaml: Is a directory"):
        BENCHMARK.at(str(tmp_path))


def test_metadata_may_have_any_values(tmp_path: Path) -> None:
    challenge(
        tmp_path / "rot", f"{SHEET}metadata: {{category: crypto, tags: [a, b], made: 2026-01-05, by: null}}\n"
    )
    assert BENCHMARK.at(str(tmp_path)).task("rot.easy").domain == "crypto"


def test_two_challenges_of_one_name_are_refused(tmp_path: Path) -> None:
    challenge(tmp_path / "one")
    challenge(tmp_path / "two")
    with pytest.raises(
        WrongUseError, match=rf"/two/eval\.yaml: name: rot is the name of {tmp_path}/one, too"
    ):
        BENCHMARK.at(str(tmp_path))


def test_a_solution_that_is_not_all_text_is_no_reference(tmp_path: Path) -> None:
    """The oracle writes it with a tool for texts. It leaves such a challenge out."""
    files = "{/root/solution.sh: solution.sh, /root/key: key}"
    challenge(tmp_path / "rot", f"{SHEET[:-2]}, solution: {{prompt: run, files: {files}}}}}\n")
    (tmp_path / "rot" / "solution.sh").write_text("cat key")
    benchmark = BENCHMARK.at(str(tmp_path))
    assert benchmark.reference("rot.easy") is None  # a file is missing
    (tmp_path / "rot" / "key").write_bytes(b"\xff")
    assert benchmark.reference("rot.easy") is None
    (tmp_path / "rot" / "key").write_text("k")
    assert benchmark.reference("rot.easy") is not None


def test_a_folder_without_challenges_is_missing_and_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCP_BENCH_CYBENCH", str(tmp_path / "challenges"))
    assert f"{tmp_path}/challenges has no folder with an eval.yaml" in str(BENCHMARK.missing())
    (tmp_path / "challenges").mkdir()
    challenge(tmp_path / "challenges" / "rot")
    assert BENCHMARK.missing() is None


class Machine(NoHost):
    """A host, and a stand-in for the sandbox that it lends."""

    over = ""

    def __init__(self) -> None:
        super().__init__()
        self.files: dict[str, bytes] = {}

    async def sandbox(self, spec: SandboxSpec) -> Sandbox:
        return cast(Sandbox, self)

    async def write(self, path: str, data: bytes, *, mode: int) -> None:
        self.files[path] = data


@pytest.mark.anyio
async def test_a_variant_may_have_files_and_a_flag_of_its_own(tmp_path: Path) -> None:
    sheet = f"{SHEET[:-2]}, hard: {{prompt: Find it., flag: 'FLAG{{own}}', files: {{/root/key: key}}}}}}\n"
    challenge(tmp_path / "rot", sheet)
    assert list(BENCHMARK.at(str(tmp_path)).tasks()) == []  # a file is missing
    (tmp_path / "rot" / "key").write_text("k")
    benchmark = BENCHMARK.at(str(tmp_path))
    seen = []
    for level in ("easy", "hard"):
        machine = Machine()
        world = await benchmark.open(f"rot.{level}", host=machine)
        said = [
            (await world.call("submit_flag", {"flag": flag})).text for flag in ("FLAG{own}", "FLAG{one_two}")
        ]
        seen.append((sorted(machine.files), ["is the flag" in text for text in said]))
    assert seen == [
        (["/root/secret.txt"], [False, True]),
        (["/root/key", "/root/secret.txt"], [True, False]),
    ]
