"""The operator's table of images: what is broken is said in one line."""

from pathlib import Path

import pytest

from mcp_bench.servers.errors import WrongUseError
from mcp_bench.servers.harbor import BENCHMARK
from mcp_bench.servers.host import open_world
from mcp_bench.servers.sandbox import Sandbox, SandboxSpec
from tests.support.task_folders import SandboxHost, harbor_task, write

pytestmark = pytest.mark.component


DOWNLOADS = """\
ARG BASE
FROM $BASE AS tools
ENV OLD=1
RUN curl https://example.org/tool
FROM python:3.13
ENV PLACE=/app
RUN apt-get update && apt-get install -y git
COPY --from=tools /tool /usr/bin/tool
WORKDIR $PLACE
"""


class Asked(Exception):  # noqa: N818 - no error
    """What a world asked for."""


class Lender(SandboxHost):
    async def sandbox(self, spec: SandboxSpec) -> Sandbox:
        raise Asked(spec.base, spec.workdir, spec.env, spec.kept)


@pytest.mark.anyio
async def test_a_built_image_stands_for_a_dockerfile_that_cannot_be_followed(
    bench_home: Path, tmp_path: Path
) -> None:
    folder = harbor_task(tmp_path / "built-1")
    write(folder, {"environment/Dockerfile": DOWNLOADS})
    [task] = BENCHMARK.at(str(tmp_path)).tasks()
    assert task.needs == ("container:Dockerfile, line 2: FROM $BASE AS tools names no image",)
    write(bench_home / "harbor", {"bases.toml": '[tasks]\n"built-*" = "/srv/built"\n'})
    [task] = BENCHMARK.at(str(tmp_path)).tasks()
    assert task.needs == ("sandbox",)
    with pytest.raises(Asked) as asked:
        await open_world(BENCHMARK.at(str(tmp_path)), "built-1", seed=0, host=Lender())
    assert asked.value.args == ("/srv/built", "/app", {"PLACE": "/app"}, "")


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
