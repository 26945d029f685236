"""Each episode's client is a fork: what the SDK needs is there before, so no episode imports it again."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.component

FIRST_REQUEST = """
import sys, anyio
from mcp_bench.clients.chat.openai_chat import OpenAIChat
from mcp_bench.clients.chat.provider import OfferedTool, Settings
from mcp_bench.clients.events import ClientError

async def ask():
    settings = Settings(model="m", base_url="http://127.0.0.1:1/v1", max_retries=0)  # nobody is there
    try:
        await OpenAIChat(settings, "hello", [OfferedTool("f", "", {"type": "object"})]).reply()
    except ClientError as error:
        print(error.kind)

before = set(sys.modules)
anyio.run(ask)
own = ("openai", "httpx2", "httpcore2", "pydantic", "truststore")
print(sorted(name for name in set(sys.modules) - before if name.partition(".")[0] in own))
"""


def test_the_first_request_imports_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", FIRST_REQUEST], capture_output=True, text=True)
    assert done.stdout.splitlines() == ["endpoint", "[]"], done.stderr
