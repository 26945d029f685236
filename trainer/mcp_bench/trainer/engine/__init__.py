"""Our own engine: any causal language model that transformers loads, in one process, on one device.

`Engine` decodes many requests at once, reuses what conversations share, and holds tool calls to their schemas
where that is wanted. `python -m mcp_bench.trainer.engine` puts OpenAI's chat API in front of it.
"""
