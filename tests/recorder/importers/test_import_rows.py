"""What rows of other tools become: their tasks, their own keys, and attempts that the store has already."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from mcp_bench.recorder.cli.export import export
from mcp_bench.recorder.cli.import_ import import_
from mcp_bench.recorder.files.parquet import Parquet
from mcp_bench.recorder.importers.attempt import Attempt
from mcp_bench.recorder.trajectory import Message

pytestmark = pytest.mark.system

Invoke = Callable[..., Result]


def chat(prompt: str, system: str = "", **facts: Any) -> dict[str, Any]:
    said = [{"role": "user", "content": prompt}, {"role": "assistant", "content": f"Done: {prompt}"}]
    return {"messages": [*([{"role": "system", "content": system}] if system else []), *said], **facts}


def write(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def imported(invoke: Invoke, *arguments: str | Path) -> tuple[int, int]:
    """Import; return the number of new episodes, and of those that were in the store."""
    result = invoke(import_, *arguments, "--json")
    assert result.exit_code == 0, (result.output, result.exception)
    outcome = json.loads(result.stdout)
    return outcome["imported"], outcome["known"]


def exported(invoke: Invoke, out: Path, *options: str) -> list[dict[str, Any]]:
    result = invoke(export, "--split", "all", "--out", out, "--force", *options)
    assert result.exit_code == 0, (result.output, result.exception)
    return [json.loads(line) for line in out.read_text("utf-8").splitlines()]


def test_rows_with_the_same_instructions_are_different_tasks(
    bench_home: Path, invoke: Invoke, tmp_path: Path
) -> None:
    rows = [chat(prompt, "You help at the desk.", partial=1) for prompt in ("Add.", "Sort.", "Add.")]
    rows[2]["messages"][-1]["content"] = "Added."
    assert imported(invoke, write(tmp_path / "rows.jsonl", *rows)) == (3, 0)
    first, second, again = (row["task"] for row in exported(invoke, tmp_path / "all.jsonl"))
    assert (first == again, first == second) == (True, False)
    assert len(exported(invoke, tmp_path / "best.jsonl", "--best", "1")) == 2


def test_rows_without_a_user_are_different_tasks(bench_home: Path, invoke: Invoke, tmp_path: Path) -> None:
    rows = [
        {"messages": [{"role": "system", "content": text}, {"role": "assistant", "content": "Ho"}], "partial": 1}
        for text in ("Say ho.", "Say hi.")
    ]  # fmt: skip
    imported(invoke, write(tmp_path / "rows.jsonl", *rows))
    assert len({row["task"] for row in exported(invoke, tmp_path / "all.jsonl")}) == 2


def test_own_keys_of_another_tool_are_no_facts(bench_home: Path, invoke: Invoke, tmp_path: Path) -> None:
    """They have our names and other types. What can be a name becomes one."""
    own = {
        "id": 17, "domain": 3, "task": 5, "split": ["a"], "agent": {"name": "x"}, "model": {"id": "m"}, "seed": "s",
        "benchmark": {}, "usage": {"input_tokens": {"all": 3}, "output_tokens": 4}, "trainable": "no", "partial": 1,
    }  # fmt: skip
    assert imported(invoke, write(tmp_path / "rows.jsonl", chat("Hi", **own), chat("Ho", id=18))) == (2, 0)
    (row,) = exported(invoke, tmp_path / "all.jsonl")
    expected = {
        "domain": "3", "task": "5", "split": "imported", "agent": "unknown", "model": None, "seed": 0,
        "benchmark": "imported", "usage": {"output_tokens": 4}, "partial": 1.0,
    }  # fmt: skip
    assert {name: row[name] for name in expected} == expected


def test_a_damaged_row_of_ours_is_left_out(bench_home: Path, invoke: Invoke, tmp_path: Path) -> None:
    imported(invoke, write(tmp_path / "rows.jsonl", chat("Hi", partial=1)))
    (row,) = exported(invoke, tmp_path / "all.jsonl")
    result = invoke(import_, write(tmp_path / "edited.jsonl", {**row, "split": ["train"]}))
    assert (result.exit_code, "split" in result.stderr) == (1, True)


@pytest.mark.parametrize("form", ["trl", "sharegpt", "inspect"])
@pytest.mark.parametrize("elsewhere", [False, True])
def test_an_export_of_imported_rows_is_recognised(
    bench_home: Path,
    invoke: Invoke,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    form: str,
    elsewhere: bool,
) -> None:
    """Here by its ids, and in another store that has the same rows by its content."""
    plain = write(tmp_path / "rows.jsonl", chat("Hi", partial=1), chat("Ho", partial=0.5))
    assert imported(invoke, plain) == (2, 0)
    out = tmp_path / ("log.eval" if form == "inspect" else "out.jsonl")
    assert invoke(export, "--split", "all", "--format", form, "--out", out).exit_code == 0
    if elsewhere:
        monkeypatch.setenv("MCP_BENCH_HOME", str(tmp_path / "other-home"))
        assert imported(invoke, plain) == (2, 0)
    assert imported(invoke, out) == (0, 2)
    assert imported(invoke, plain) == (0, 2)


def left_out(invoke: Invoke, path: Path) -> tuple[int, list[tuple[str, str]]]:
    """Import; return the number of new episodes, and the place and the reason of each row left out."""
    outcome = json.loads(invoke(import_, path, "--json").stdout)
    return outcome["imported"], [(bad["where"], bad["reason"]) for bad in outcome["bad"]]


def test_a_line_that_is_not_utf8_is_left_out_alone(bench_home: Path, invoke: Invoke, tmp_path: Path) -> None:
    """A lone surrogate in UTF-8's scheme is none. As an escape it is JSON, and becomes a question mark."""
    good, other = (json.dumps(chat(f"Say {word}.", partial=1)).encode() for word in ("hi", "ho"))
    path = tmp_path / "rows.jsonl"
    odd, escaped = other.replace(b"ho", b"\xed\xa0\x80"), other.replace(b"ho", b"\\ud800")
    path.write_bytes(b"\n".join([b"\xef\xbb\xbf" + good, odd, other, escaped, b"\xff"]))
    place = odd.index(b"\xed")
    assert left_out(invoke, path) == (
        3, [("line 2", f"not UTF-8 at byte {place}"), ("line 5", "not UTF-8 at byte 0")],
    )  # fmt: skip
    rows = exported(invoke, tmp_path / "all.jsonl")
    assert [row["messages"][0]["content"] for row in rows] == ["Say hi.", "Say ho.", "Say ?."]


def test_an_odd_cell_leaves_out_its_row_alone(bench_home: Path, invoke: Invoke, tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    with path.open("wb") as file:
        writer = Parquet(file, {"messages": "json list", "partial": "float"}, None)  # type: ignore[arg-type]
        for text in (r'"\ud800"', '"fine"', '"", "x": NaN', '"", "x": ' + "[" * 2000 + "]" * 2000):
            asked, said = (f'{{"role": "{role}", "content": {text}}}' for role in ("user", "assistant"))
            writer.write({"messages": [asked, said], "partial": 1.0})
        writer.close()
    assert left_out(invoke, path) == (
        2, [("row 3", "not JSON: NaN is not a JSON number"), ("row 4", "nested too deeply")],
    )  # fmt: skip
    rows = exported(invoke, tmp_path / "all.jsonl")
    assert [row["messages"][0]["content"] for row in rows] == ["?", "fine"]


def test_an_attempt_that_cannot_be_stored_has_no_digest() -> None:
    """So a row with one is left out, whichever importer made it."""
    attempt = Attempt(task="t", messages=[Message(role="user", content="\ud800")])
    with pytest.raises(UnicodeEncodeError):
        attempt.digest()
