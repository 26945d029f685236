"""The hostile agent's final report, and its transcript."""

import json
import os
import sys
from pathlib import Path
from zipfile import ZipFile

with ZipFile(sys.argv[0]) as own:
    PLACES = json.loads(own.read("places.json"))

transcript = Path(os.environ["HOME"], "messages").open("a")  # noqa: SIM115 - to the end
results = {}
numbers = iter(range(1, 1000))


def account(command, output):
    """Write a command and its output to the transcript."""
    call = {"id": f"c{next(numbers)}", "function": {"name": "shell", "arguments": {"command": command}}}
    said = {"role": "assistant", "tool_calls": [call]}
    answer = {"role": "tool", "tool_call_id": call["id"], "name": "shell", "content": output}
    for message in (said, answer):
        transcript.write(json.dumps(message) + "\n")
    transcript.flush()


def report(more):
    print(json.dumps({**results, **(more or {})}), flush=True)
