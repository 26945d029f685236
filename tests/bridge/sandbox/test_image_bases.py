"""Bases that are images, archives or folders, for the engines that run images."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import anyio
import pytest

from mcp_bench.bridge.sandbox.containers import engine as containers_engine
from mcp_bench.bridge.sandbox.containers.engine import weakness, working_variant
from mcp_bench.bridge.sandbox.containers.leftovers import LABEL, owner
from mcp_bench.bridge.sandbox.containers.program import (
    DOCKER,
    PODMAN,
    Program,
    call,
    last_words,
    run_words,
)
from mcp_bench.bridge.sandbox.engine import choose
from mcp_bench.servers.sandbox import SandboxError, SandboxLimits, SandboxSpec
from tests.support.machines.sandbox_engines import engine

pytestmark = [pytest.mark.anyio, pytest.mark.component]
PROGRAMS = {"podman": PODMAN, "docker": DOCKER}
TAG = "mcp-bench-test:image-bases"


@pytest.fixture
def system(tmp_path: Path) -> Path:
    """Return a folder with the smallest system: a shell, and what it loads."""
    shell = str(Path(shutil.which("dash") or "/bin/sh").resolve())
    loaded = subprocess.run(["ldd", shell], capture_output=True, text=True, check=True).stdout
    root = tmp_path / "system"
    for name, source in ("/bin/sh", shell), *((one, one) for one in re.findall(r"(/\S+) \(0x", loaded)):
        place = root / name.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, place)
    (root / "etc").mkdir()
    (root / "etc" / "motd").write_text("of the base\n")
    return root


@pytest.mark.parametrize("name", PROGRAMS)
async def test_a_folder_an_archive_and_an_image_are_bases(name: str, system: Path, tmp_path: Path) -> None:
    found, program = engine(name), PROGRAMS[name]
    archive = tmp_path / "system.tar"
    with tarfile.open(archive, "w") as tar:
        tar.add(system, ".")
    call(program, "import", "--change=ENV OF_IMAGE=yes", str(archive), TAG)
    try:
        for base in (str(system), str(archive), f"image:{TAG}"):
            with anyio.fail_after(120):
                async with found.sandbox(SandboxSpec(base=base)) as sandbox:
                    await one_base(sandbox, base)
    finally:
        for image in (TAG, *bases(program)):
            call(program, "rmi", "--force", image)


def bases(program: Program) -> list[str]:
    """Return the images that were made of a folder or an archive."""
    listed = call(program, "images", "--format", "{{.Repository}}:{{.Tag}}").stdout.decode().split()
    return [
        image for image in listed if "mcp-bench-base:folder-" in image or "mcp-bench-base:archive-" in image
    ]


async def one_base(sandbox, base: str) -> None:
    said = await sandbox.run('read -r line </etc/motd; echo "$line, ${OF_IMAGE:-no}"; echo new >/etc/motd')
    assert said.output == f"of the base, {'yes' if base.startswith('image:') else 'no'}\n"
    await sandbox.run("echo mine >file")
    assert {change.path for change in await sandbox.changes()} >= {"/etc/motd", "/work/file"}
    await sandbox.renew({"/tests": {"run.sh": b"read -r line </work/file; echo $line"}})
    # what an agent left in the system's folders does not count
    assert (await sandbox.run(". /tests/run.sh; read -r line </etc/motd; echo $line")).output == (
        "mine\nof the base\n"
    )


@pytest.mark.parametrize("name", PROGRAMS)
async def test_what_is_committed_belongs_to_the_base(name: str) -> None:
    with anyio.fail_after(120):
        async with engine(name).sandbox(SandboxSpec()) as sandbox:
            await sandbox.run("echo built >/opt/tool; rm /etc/shells; echo set >/etc/hosts.allow")
            await sandbox.commit()
            assert {change.path for change in await sandbox.changes()} <= {"/work"}
            await sandbox.run("echo agents >file; rm /opt/tool")
            await sandbox.renew()
            assert (await sandbox.run("cat file; ls /opt")).output == "agents\n"
            await sandbox.renew(fresh=True)
            left = await sandbox.run(
                "cat /opt/tool /etc/hosts.allow; ls -A; test -e /etc/shells || echo gone"
            )
            assert left.output == "built\nset\ngone\n"


@pytest.mark.parametrize("name", ["bwrap", *PROGRAMS])
async def test_what_is_mounted_can_be_read_whatever_the_umask_is(name: str) -> None:
    before = os.umask(0o077)
    try:
        with anyio.fail_after(120):
            async with engine(name).sandbox(SandboxSpec()) as sandbox:
                await sandbox.renew({"/tests": {"top.sh": b"echo top\n", "below/it/deep.sh": b"echo deep\n"}})
                said = await sandbox.run("sh /tests/top.sh; sh /tests/below/it/deep.sh; ls /tests/below")
                assert said.output == "top\ndeep\nit\n"
    finally:
        os.umask(before)


def test_a_container_that_is_tried_has_an_owner(monkeypatch) -> None:
    said = list[tuple[str, ...]]()

    def call(_: Program, *words: str) -> subprocess.CompletedProcess[bytes]:
        said.append(words)
        return subprocess.CompletedProcess(words, 0, b"works\n", b"")

    monkeypatch.setattr(containers_engine, "call", call)
    monkeypatch.setattr(containers_engine, "image", lambda *_: "base")
    working_variant.__wrapped__(PODMAN)
    assert f"--label={LABEL}={owner()}" in said[0]


def test_bwrap_runs_no_images(monkeypatch) -> None:
    with pytest.raises(SandboxError, match=r"bwrap: it runs no images, and the base is image:python:3.12"):
        choose("bwrap", "image:python:3.12")


def test_every_container_is_confined_by_the_same_options() -> None:
    words = run_words(SandboxLimits(), network=False, cgroups=True)
    assert {"--network=none", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--pull=never"} <= {
        *words
    }
    assert not {"--privileged", "--cap-add=SYS_ADMIN", "--pid=host"} & {*words}
    assert [word for word in words if word.startswith(("--memory=", "--pids-limit=", "--cpus="))]


@pytest.mark.parametrize(
    ("options", "weak"),
    [('["name=seccomp,profile=default"]', True), ('["name=userns"]', False), ('["name=rootless"]', False)],
)
def test_docker_is_weak_where_its_daemon_maps_no_users(tmp_path, monkeypatch, options, weak) -> None:
    stub = tmp_path / "docker"
    stub.write_text(f"#!/bin/sh\necho '{options}'\n")
    stub.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert ("userns-remap" in weakness(DOCKER)) == weak
    assert weakness(PODMAN) == ""


def test_what_a_program_says_last_is_no_advice_about_itself() -> None:
    for advice in ("Run 'docker run --help' for more information", "See 'docker run --help'."):
        said = f"docker: Error response from daemon: no such image.\n\n{advice}\n"
        assert last_words(said.encode()) == "docker: Error response from daemon: no such image."
    assert last_words(b"\n") == ""
