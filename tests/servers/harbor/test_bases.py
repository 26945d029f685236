"""The operator's table of images: what is broken is said in one line."""

from pathlib import Path

import pytest

from mcp_bench.servers.errors import WrongUseError
from mcp_bench.servers.harbor import BENCHMARK
from tests.support.task_folders import harbor_task, write

pytestmark = pytest.mark.component


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("images = 3", ": images: Input should be a valid dictionary"),
        ('[images]\n"ubuntu:*" = 24', ": images.ubuntu:*: Input should be a valid string"),
        ("[image]", ": image: Extra inputs are not permitted"),
        ("[images", " cannot be read: Expected ']' at the end of a table declaration (at end of document)"),
        ('[images]\n"caf\xe9" = "host"', " cannot be read: 'utf-8' codec can't decode byte 0xe9"),
    ],
)
def test_what_is_wrong_with_the_table_is_one_line(
    bench_home: Path, tmp_path: Path, text: str, reason: str
) -> None:
    harbor_task(tmp_path / "a")
    file = write(bench_home / "harbor", {"bases.toml": ""}) / "bases.toml"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(WrongUseError) as raised:
        list(BENCHMARK.at(str(tmp_path)).tasks())
    assert str(raised.value).startswith(f"{file}{reason}")
    assert "\n" not in str(raised.value)
