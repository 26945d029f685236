"""`--max-tokens` with the file of a real tokenizer."""

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit

from mcp_bench.recorder.cli.export import export
from mcp_bench.recorder.curation.tokens import MARKUP
from mcp_bench.recorder.trajectory import Message
from mcp_bench.servers.errors import WrongUseError
from mcp_bench.servers.extras import install_extra
from tests.support.recorded import TOOL, Episode, planned, record

pytestmark = pytest.mark.system

Invoke = Callable[..., Result]


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    """Each word is a token. The file switches on truncation and padding, which would hide lengths."""
    made = Tokenizer(WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    made.pre_tokenizer = WhitespaceSplit()
    made.enable_truncation(4)
    made.enable_padding(length=64)
    folder = tmp_path / "model"
    folder.mkdir()
    made.save(str(folder / "tokenizer.json"))
    return folder


def tokens(answer: str) -> int:
    """Count the tokens of an episode below: its texts, call and tool, and five pieces of markup."""
    tool = json.dumps(TOOL.model_dump())
    texts = ["Please do t.", "transfer", '{"amount": 12.5}', "done", answer, tool]
    return sum(len(text.split()) for text in texts) + 5 * MARKUP


def test_long_episodes_are_dropped_and_counted(invoke: Invoke, tokenizer: Path, tmp_path: Path) -> None:
    answers = [" ".join(["word"] * count) for count in (3, 30, 31, 300)]
    for answer in answers:
        record([(planned("t"), Episode(transcript=[Message(role="assistant", content=answer)]))])
    out = tmp_path / "rows.jsonl"
    result = invoke(export, "--tokenizer", tokenizer, "--max-tokens", tokens(answers[1]), "--out", out)
    assert result.exit_code == 0, result.exception
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["messages"][-1]["content"] for row in rows] == answers[:2]
    manifest = json.loads((tmp_path / "rows.jsonl.manifest.json").read_text())
    assert manifest["funnel"]["dropped"]["too_many_tokens"] == 2
    assert f"-2 longer than {tokens(answers[1])} tokens" in result.stderr
    file = tokenizer / "tokenizer.json"
    assert manifest["selection"]["tokenizer"] == {
        "path": str(tokenizer), "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
    }  # fmt: skip
    again = invoke(
        export, "--tokenizer", file, "--max-tokens", tokens(answers[1]), "--out", tmp_path / "again"
    )
    assert again.exit_code == 0
    assert (tmp_path / "again").read_bytes() == out.read_bytes()


def test_a_file_that_is_not_a_tokenizer_is_refused(invoke: Invoke, tmp_path: Path) -> None:
    file = tmp_path / "tokenizer.json"
    file.write_text('{"version": "1.0"}')
    result = invoke(export, "--tokenizer", file, "--max-tokens", 5, "--out", tmp_path / "o")
    assert isinstance(result.exception, WrongUseError)
    assert str(file) in str(result.exception)


def test_a_missing_library_is_reported_with_its_install(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['tokenizers'] = None;"
        "from mcp_bench.bridge.cli.root import main;"
        "sys.argv = ['mcp-bench', 'export', '--tokenizer', 'x', '--max-tokens', '5', '--out', 'o']; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, timeout=120
    )
    assert done.returncode == 1
    assert install_extra("tokenizers") in done.stderr
