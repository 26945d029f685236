"""The endpoint as a process: `python -m tests.support.model_endpoint --scripts FILE`.

FILE has a JSON list of `{"prompt", "reference": {"calls", "answer"}}`. Prints one line of JSON with
its port and URLs, and serves until it is interrupted or its standard input ends (`--until-eof`).
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
from pathlib import Path

from .endpoint import ModelEndpoint
from .script import script_from_reference


def main() -> None:
    parser = argparse.ArgumentParser(prog="model_endpoint", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--scripts", type=Path, required=True, help="JSON list of prompts with references")
    parser.add_argument("--parallel", type=int, default=1, help="calls in one turn")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--until-eof", action="store_true", help="end when standard input does")
    options = parser.parse_args()
    scripts = [
        script_from_reference(entry["prompt"], entry["reference"], parallel=options.parallel)
        for entry in json.loads(options.scripts.read_text())
    ]
    endpoint = ModelEndpoint(scripts, port=options.port)
    urls = {"port": endpoint.port, "openai": endpoint.openai_url, "anthropic": endpoint.anthropic_url}
    print(json.dumps(urls), flush=True)
    if options.until_eof:
        threading.Thread(target=lambda: (sys.stdin.read(), endpoint.stop()), daemon=True).start()
    endpoint.serve()


if __name__ == "__main__":
    main()
