"""The manifests by which agents, bundles and registries know the server: current, and what their validators want."""

import json
import re
import shutil
import subprocess
import zipfile
from importlib.metadata import entry_points, version
from pathlib import Path

import pytest
from jsonschema import Draft7Validator

from mcp_bench.plugins.install.manifests import files
from mcp_bench.plugins.install.places import SETTINGS
from tests.support import ROOT
from tests.support.agents.node_clis import node_environ

pytestmark = pytest.mark.system

MANIFESTS = ROOT / "plugins" / "manifests"
SCHEMA = ROOT / "tests" / "support" / "mcp_registry" / "server.schema.json"


def run(home: Path, *command: str | Path, code: int = 0) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        env=node_environ(home) | {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"},
        cwd=home, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert done.returncode == code, (command, done.stdout, done.stderr)
    return done.stdout + done.stderr


def test_the_files_are_what_the_code_writes() -> None:
    """Else: `make docs`."""
    there = {path for path in MANIFESTS.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    there.add(ROOT / ".claude-plugin" / "marketplace.json")
    assert {str(path.relative_to(ROOT)): path.read_text() for path in there} == files()


def test_the_server_entry_is_the_one_that_install_writes() -> None:
    for agent, file in (("claude-code", "claude-code/.mcp.json"), ("gemini", "gemini/gemini-extension.json")):
        document = json.loads((MANIFESTS / file).read_text())["mcpServers"]
        assert document == {"bench": SETTINGS[agent].entry(["mcp-bench", "connect"], {})}


def test_the_plugin_passes_claude_codes_own_validation(tmp_path: Path) -> None:
    plugin = MANIFESTS / "claude-code"
    shown = run(tmp_path, "claude", "plugin", "validate", "--strict", plugin)
    assert 'mcpServers: bench stdio mcp-bench ["connect"]' in shown and "commands: bench:bench" in shown
    run(tmp_path, "claude", "plugin", "validate", "--profile", "directory", plugin)
    assert "marketplace manifest" in run(tmp_path, "claude", "plugin", "validate", "--strict", ROOT)
    shutil.copytree(plugin, tmp_path / "spoiled")
    (tmp_path / "spoiled" / ".claude-plugin" / "plugin.json").write_text('{"name": 5}')
    run(tmp_path, "claude", "plugin", "validate", "--strict", tmp_path / "spoiled", code=1)


def test_the_extension_passes_geminis_own_validation(tmp_path: Path) -> None:
    assert "successfully validated" in run(tmp_path, "gemini", "extensions", "validate", MANIFESTS / "gemini")


def test_the_bundle_is_packed_by_its_own_tool(tmp_path: Path) -> None:
    run(tmp_path, "mcpb", "validate", MANIFESTS / "mcpb" / "manifest.json")
    bundle = tmp_path / "bench.mcpb"
    run(tmp_path, "mcpb", "pack", MANIFESTS / "mcpb", bundle)
    with zipfile.ZipFile(bundle) as packed:
        assert set(packed.namelist()) == {"manifest.json", "pyproject.toml", "server.py"}
        manifest = json.loads(packed.read("manifest.json"))
        assert manifest["server"]["entry_point"] in packed.namelist()
        assert f"mcp-bench-kit=={version('mcp-bench-kit')}" in packed.read("pyproject.toml").decode()


@pytest.fixture
def server() -> dict:
    return json.loads((MANIFESTS / "server.json").read_text())


def test_the_registrys_entry_holds_to_its_schema(server: dict) -> None:
    schema = json.loads(SCHEMA.read_text())
    validator = Draft7Validator(schema)
    assert schema["$id"] == server["$schema"]
    assert list(validator.iter_errors(server)) == []
    assert list(validator.iter_errors({**server, "description": "x" * 101})) != []
    assert list(validator.iter_errors({**server, "name": "bench"})) != []


def test_the_registrys_entry_can_be_started_as_its_clients_do(server: dict) -> None:
    """They run `uvx IDENTIFIER ARGUMENTS`: there has to be a script of the package's name."""
    (package,) = server["packages"]
    assert (package["identifier"], package["version"]) == ("mcp-bench-kit", version("mcp-bench-kit"))
    scripts = {point.name: point.value for point in entry_points(group="console_scripts")}
    assert scripts[package["identifier"]] == scripts["mcp-bench"]
    assert [argument.get("value") for argument in package["packageArguments"]] == ["connect", None]


def test_the_readme_proves_to_the_registry_whose_it_is(server: dict) -> None:
    assert re.findall(r"mcp-name: (\S+)", (ROOT / "README.md").read_text()) == [server["name"]]
