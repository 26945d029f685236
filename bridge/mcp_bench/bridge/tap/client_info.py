"""Who a client says it is: `clientInfo` of the handshake, or of a request of 2026-07-28."""

from __future__ import annotations

from mcp_bench.recorder.frames import jsonrpc

META_KEY = "io.modelcontextprotocol/clientInfo"


def client_info(body: bytes) -> tuple[str, str] | None:
    """Return name and version, where a message of the client tells them."""
    try:
        message = jsonrpc.loads(body)
    except ValueError:
        return None
    params = message.get("params") if isinstance(message, dict) else None
    if not isinstance(params, dict):
        return None
    meta = params.get("_meta")
    told = params.get("clientInfo") or (meta.get(META_KEY) if isinstance(meta, dict) else None)
    if not isinstance(told, dict) or not isinstance(told.get("name"), str):
        return None
    return jsonrpc.clean(told["name"]), jsonrpc.clean(str(told.get("version", "")))
