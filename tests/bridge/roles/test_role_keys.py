"""Keys of role models when the shared key is taken for something else."""

from __future__ import annotations

import pytest

from mcp_bench.bridge.roles.models import keep_logins, keep_role_keys, roles_of, stored_roles
from mcp_bench.plugins.needs import PLACEHOLDER
from mcp_bench.recorder.run_settings import RunSettings
from mcp_bench.servers.errors import WrongUseError

pytestmark = pytest.mark.unit

URL = "http://127.0.0.1:1/v1"


def test_a_role_keeps_the_shared_key_that_a_policy_takes() -> None:
    environ = {"OPENAI_API_KEY": "mine", "MCP_BENCH_JUDGE_API_KEY": "of the judge"}
    for _ in range(2):  # once for each recording
        keep_role_keys(environ)
        environ["OPENAI_API_KEY"] = PLACEHOLDER
    chosen = {"user_model": "u", "user_base_url": URL, "judge_model": "j", "judge_base_url": URL}
    models = roles_of(chosen, environ).models
    assert (models["user"].key, models["judge"].key) == ("mine", "of the judge")


def test_a_login_in_a_url_reaches_those_who_record_and_is_not_stored() -> None:
    environ: dict[str, str] = {}
    url = "https://bob:word@host/v1"
    roles = roles_of(
        {"user_model": "u", "user_base_url": url, "judge_model": "j", "judge_base_url": URL}, environ
    )
    settings = RunSettings()
    roles.store_in(settings)
    assert "word" not in str(settings)
    with pytest.raises(
        WrongUseError, match="Set MCP_BENCH_USER_BASE_URL to the URL with its login: https://host/v1"
    ):
        stored_roles(settings, environ)
    keep_logins(roles, environ)
    again = stored_roles(settings, environ).models
    assert (again["user"].base_url, again["judge"].base_url) == (url, URL)
    with pytest.raises(WrongUseError, match="MCP_BENCH_USER_BASE_URL"):
        stored_roles(settings, {"MCP_BENCH_USER_BASE_URL": "https://bob:word@elsewhere/v1"})


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "MCP_BENCH_USER_API_KEY"])
def test_a_key_that_no_header_can_have_is_refused(name: str) -> None:
    with pytest.raises(WrongUseError, match=f"the key in {name} cannot be sent") as refused:
        roles_of({"user_model": "u", "user_base_url": URL}, {name: "secret\n"})
    assert "secret" not in str(refused.value)
