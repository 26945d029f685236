"""The command that a message names installs from where mcp-bench was installed."""

import json
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest

from mcp_bench.servers import extras
from mcp_bench.servers.extras import install_extra, install_trainer

pytestmark = pytest.mark.unit


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch):
    """Pretend that pip noted this about the installation."""

    def note(document: dict[str, object] | None) -> None:
        text = document and json.dumps(document)
        monkeypatch.setattr(
            metadata, "distribution", lambda name: SimpleNamespace(read_text=lambda file: text)
        )
        extras._installed_from.cache_clear()

    yield note
    extras._installed_from.cache_clear()


def test_from_an_index_the_name_is_enough(noted) -> None:
    noted(None)
    assert install_extra("report") == "pip install 'mcp-bench-kit[report]'"
    assert install_trainer().startswith("pip install ./trainer, in a checkout")


@pytest.mark.parametrize("editable", [False, True])
def test_a_checkout_is_named_and_stays_editable(noted, tmp_path: Path, editable: bool) -> None:
    checkout = tmp_path / "my checkout"
    (checkout / "trainer").mkdir(parents=True)
    noted({"url": checkout.as_uri(), "dir_info": {"editable": editable}})
    option = "--editable " if editable else ""
    assert install_extra("report") == f"pip install {option}'{checkout}[report]'"
    assert install_trainer() == f"pip install {option}'{checkout}/trainer'. It installs PyTorch"


def test_a_wheel_is_named_while_it_is_there(noted, tmp_path: Path) -> None:
    wheel = tmp_path / "mcp_bench_kit-0.1.0-py3-none-any.whl"
    wheel.touch()
    document = {"url": wheel.as_uri(), "archive_info": {}}
    noted(document)
    assert install_extra("otel") == f"pip install '{wheel}[otel]'"
    assert install_trainer().startswith("pip install ./trainer, in a checkout")
    wheel.unlink()
    noted(document)
    assert install_extra("otel") == "pip install 'mcp-bench-kit[otel]'"
