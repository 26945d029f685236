"""The texts of the manifests, and the two files of the MCPB bundle that are not JSON."""

from __future__ import annotations

COMMAND_SUMMARY = "Take a task of the benchmark and work on it"
COMMAND = """\
Solve tasks that the MCP server `bench` hands out: {count} of them, or one if no number stands here.

For each task, one after the other:

1. Call `next_task`. Its result says what is to be done, and that is all you are told.
2. Do it with the other tools of the server `bench`, and with those only: no files, no shell, no web.
3. Where the task asks for an answer, hand it in with `submit_answer`.
4. Call `finish_task`.

End when there are no more tasks. How well it went is not told to you: it is in `mcp-bench report`.

If the server or its tools are missing, say so, and that `pip install mcp-bench-kit` installs it and
`mcp-bench doctor` finds out what is wrong.
"""
README = """\
# mcp-bench, for {agent}

This plugin adds the MCP server `bench` and the command `{command}`. With it the agent takes tasks from a
benchmark, solves them with the server's tools, and hands them in. Every call is recorded on your machine,
and the final state of each task is graded where the agent cannot see it.

It needs the program `mcp-bench` on your PATH: `pip install mcp-bench-kit`. Then type `{command}`, or
`{command} 5` for five tasks, and look at the results with `mcp-bench report`. Recordings stay on your
machine, in `MCP_BENCH_HOME`.
"""
SERVER = """\
from mcp_bench.bridge.cli.root import main

main()
"""
PROJECT = """\
[project]
name = "mcp-bench-bundle"
version = "{version}"
requires-python = ">=3.11"
dependencies = ["mcp-bench-kit=={version}"]
"""
