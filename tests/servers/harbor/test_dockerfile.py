"""Dockerfiles: what a sandbox follows, and the reason where it cannot."""

from __future__ import annotations

import pytest

from mcp_bench.bridge.sandbox.bwrap import ENVIRONMENT
from mcp_bench.bridge.sandbox.skeleton import PATH
from mcp_bench.servers.harbor.dockerfile import STARTED_WITH, UnsupportedError, copy_words, parsed

pytestmark = pytest.mark.unit


def test_environment_folder_and_steps_are_read() -> None:
    image = parsed(
        "# syntax=docker/dockerfile:1\nARG VERSION=3.13\nFROM --platform=linux/amd64 python:${VERSION}-slim\n\n"
        "ENV A=1 B='two words' \\\n    C=\"$A-x\"\nENV OLD style value\nWORKDIR /srv\nWORKDIR app\n"
        'COPY --chmod=755 run.sh ./\nRUN echo "$A" \\\n  # why\n  && true\nRUN ["sh", "-c", "exit 0"]\nUSER root\nCMD ["sh"]\n'
    )
    assert (image.base, image.workdir) == ("python:3.13-slim", "/srv/app")
    assert image.env == {"A": "1", "B": "two words", "C": "-x", "OLD": "style value"}
    assert [step.kind for step in image.steps] == ["WORKDIR", "WORKDIR", "COPY", "RUN", "RUN"]
    assert [step.workdir for step in image.steps[2:]] == ["/srv/app"] * 3
    assert image.steps[3].text.split() == ["echo", '"$A"', "&&", "true"]
    assert image.steps[4].text == "sh -c 'exit 0'"


def test_a_default_replaces_what_is_unset_or_empty() -> None:
    image = parsed(
        "ARG KEPT=1\nARG AGAIN=1\nARG NONE\nFROM a:${NONE:-slim}\nARG KEPT\nARG AGAIN=2\nARG EMPTY=\nENV BLANK=''\n"
        "ENV A=${NONE:-a} B=${EMPTY:-b} C=${BLANK:-c} D=x$NONE E=${KEPT:-e} F=${AGAIN:-f} G=${UNKNOWN:-g}\nRUN true\n"
    )
    assert image.base == "a:slim"
    assert [image.env[name] for name in "ABCDEFG"] == ["a", "b", "c", "x", "1", "2", "g"]
    [step] = image.steps
    assert "NONE" not in step.env and step.env["EMPTY"] == ""


def test_an_instruction_can_have_several_build_arguments() -> None:
    image = parsed("FROM a\nARG ONE=1 TWO='2 3' NONE\nENV A=$ONE B=$TWO C=x$NONE\n")
    assert image.env == {"A": "1", "B": "2 3", "C": "x"}


def test_the_sandboxes_own_variables_are_known() -> None:
    image = parsed('FROM a\nENV PATH="/opt/venv/bin:$PATH" CACHE=$HOME/.cache\n')
    assert image.env == {"PATH": f"/opt/venv/bin:{PATH}", "CACHE": "/root/.cache"}
    assert {name: ENVIRONMENT[name] for name in STARTED_WITH} == STARTED_WITH


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("FROM a AS b\nFROM c\n", "line 2: it has more than one stage"),
        ("ARG BASE\nFROM ${BASE}\n", "line 2: FROM ${BASE} names no image"),
        ("ARG BASE\nFROM $BASE AS b\n", "line 2: FROM $BASE AS b names no image"),
        (
            "FROM a\nRUN apt-get update && apt-get install -y git\n",
            "line 2: RUN needs a network (apt-get update)",
        ),
        ("FROM a\nRUN pip install --no-cache-dir numpy\n", "line 2: RUN needs a network (pip install)"),
        ("FROM a\nRUN git clone https://example.org/x\n", "line 2: RUN needs a network (git clone)"),
        ("FROM a\nCOPY --from=b /x /y\n", "line 2: COPY --from"),
        ("FROM a\nADD https://example.org/x /y\n", "line 2: ADD needs a network"),
        ("FROM a\nRUN <<EOF\ntrue\nEOF\n", "line 2: RUN with a here-document"),
        ("FROM a\nUSER agent\n", "line 2: USER"),
        ("FROM a\n\nONBUILD RUN true\n", "line 3: ONBUILD"),
        ("RUN true\n", "it has no FROM"),
    ],
)
def test_what_needs_a_container_engine_says_why(text: str, reason: str) -> None:
    with pytest.raises(UnsupportedError) as raised:
        parsed(text)
    assert reason in str(raised.value)


def test_copy_has_options_sources_and_a_destination() -> None:
    assert copy_words("--chmod=755 a 'b c' /d/") == ({"chmod": "755"}, ["a", "b c"], "/d/")
    assert copy_words('["a", "b c", "/d"]') == ({}, ["a", "b c"], "/d")


def test_words_are_read_as_docker_reads_them() -> None:
    image = parsed("FROM a\nENV ONE=a\\ b TWO='$HOME/x' THREE=\"$HOME/x\"\nRUN echo a && \\\n\n    echo b\n")
    assert image.env == {"ONE": "a b", "TWO": "$HOME/x", "THREE": "/root/x"}
    assert [step.text.split() for step in image.steps] == [["echo", "a", "&&", "echo", "b"]]


def test_a_tab_stands_between_words_as_a_space_does() -> None:
    image = parsed("FROM\ta\nWORKDIR\t/srv\nRUN\techo a\tb\n")
    assert (image.base, image.workdir, image.steps[1].text) == ("a", "/srv", "echo a\tb")
