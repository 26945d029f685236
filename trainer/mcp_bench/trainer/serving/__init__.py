"""Serve a checkpoint as an OpenAI-compatible endpoint: `with serve(folder) as server: server.base_url`."""

from mcp_bench.trainer.serving.server import Server, serve

__all__ = ["Server", "serve"]
