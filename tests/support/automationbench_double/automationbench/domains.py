"""Contract double: two domains. Rows are padded like those of a data set; `info` is a dict or its JSON."""

import json
from typing import Any

DOMAINS = {"sales": "Sales", "simple": "Simple", "unreleased": "Unreleased"}
PUBLIC_DOMAINS = ["sales"]
DOMAIN_ALIASES: dict[str, str] = {}


def _row(number: int, name: str, **info: Any) -> dict[str, Any]:
    prompt = [{"role": "system", "content": "Work."}, {"role": "user", "content": f"Do {name}."}]
    whole = {"task_name": name, "zapier_tools": None, **info}
    return {"example_id": number, "prompt": prompt, "answer": "", "info": whole}


def get_domain_dataset(domain: str) -> list[dict[str, Any]]:
    if domain == "unreleased":
        raise FileNotFoundError(domain)
    row = {"id": "r1", "name": "Ada", "notes": [], "owner": None}
    sent = {"type": "gmail_sent_to", "to": "ada@example.com", "row": None, "scored": None}
    gone = {"type": "google_sheets_row_gone", "row": "r1", "to": None, "scored": None}
    quiet = {"type": "gmail_not_sent_to", "to": "eve@example.com", "row": None, "scored": None}
    if domain == "sales":
        found = _row(
            7,
            "sales.follow_up",
            initial_state={"google_sheets": {"rows": [row]}, "gmail": None},
            assertions=[sent, gone, quiet],
        )
        return [{**found, "info": json.dumps(found["info"])}]
    return [
        _row(number, f"simple.write_{number}", initial_state={"gmail": {"sent": []}}, assertions=[sent])
        for number in range(6)
    ]
