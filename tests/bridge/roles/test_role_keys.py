"""Keys of role models when the shared key is taken for something else."""

from __future__ import annotations

import pytest

from mcp_bench.bridge.roles.models import keep_role_keys, roles_of
from mcp_bench.plugins.needs import PLACEHOLDER

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
