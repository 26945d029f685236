"""Contract double: the three tools of the `api` toolset."""

import base64
import json
import uuid
from typing import Any

from automationbench.schema.world import WorldState

ENDPOINTS = {
    "POST /gmail/send": "send a mail: to",
    "GET /google_sheets/rows": "list the rows",
    "POST /google_sheets/notes": "add a note to the first row: text",
    "DELETE /google_sheets/rows": "delete a row: id",
    "GET /google/rows": "search",
}


def api_search(query: str, top_k: int = 5) -> str:
    """Search the documentation of the APIs.

    Args:
        query: words to look for.
        top_k: number of results.
    """
    found = [
        f"{name}: {text}" for name, text in ENDPOINTS.items() if query.lower() in f"{name} {text}".lower()
    ]
    return json.dumps(found[:top_k])


def api_fetch(
    world: WorldState,
    method: str,
    url: str,
    params: str | None = None,
    body: str | None = None,
) -> str:
    """Call an API.

    Args:
        method: GET, POST or DELETE.
        url: the path of the endpoint.
        params: the query as a JSON string.
        body: the body as a JSON string.

    Returns:
        The answer as a JSON string.
    """
    app = url.strip("/").partition("/")[0]
    if app not in (world.meta.allowed_services or []):
        return json.dumps({"status": 401, "error": f"{app} is not connected"})
    given: dict[str, Any] = {}
    for text in (params, body):
        given |= {} if text is None else json.loads(text)
    match f"{method} {url}":
        case "POST /gmail/send":
            mail = {"id": uuid.uuid4().hex, "to": given["to"], "at": world.meta.current_time.isoformat()}
            world.gmail.sent.append(mail)
            return json.dumps({"status": 200, "data": mail})
        case "GET /google_sheets/rows":
            return json.dumps({"status": 200, "data": world.google_sheets.rows})
        case "POST /google_sheets/notes":
            world.google_sheets.rows[0]["notes"].append(given["text"])
            return json.dumps({"status": 200})
        case "DELETE /google_sheets/rows":
            world.google_sheets._deleted.append(given["id"])
            return json.dumps({"status": 200})
    raise ValueError(f"no endpoint {method} {url}")


def base64_encode(text: str) -> str:
    """Encode a text in base64."""
    return base64.b64encode(text.encode()).decode()


API_TOOLS = [api_search, api_fetch, base64_encode]
