"""A service whose settings have to fit what is asked for."""

from __future__ import annotations

import json
import random

from mcp_bench.servers.codeworld.case import Case, Check

SERVER = '''\
"""A small server. `python3 server.py` reads settings.json and answers GET requests."""
import json
import socketserver
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

settings = json.load(open("/work/settings.json"))
port = int(settings["port"])
routes = settings["routes"]
limit = settings.get("limits", {}).get("path_characters", 20)


class Server(ThreadingHTTPServer):
    def server_bind(self):  # without looking up names: there is no network
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "localhost", port


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        path = self.path.partition("?")[0]
        if len(path) > limit:
            return self.answer(414, "too long")
        for route in routes:
            if path == route["path"] or (route.get("prefix") and path.startswith(route["path"])):
                return self.answer(route.get("status", 200), route["text"])
        self.answer(404, "not found")

    def answer(self, status, text):
        self.send_response(status)
        for name, value in settings.get("headers", {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *args):
        pass


Server(("127.0.0.1", port), Handler).serve_forever()
'''
ASK = """\
import sys, time, subprocess, urllib.request, urllib.error
server = subprocess.Popen([sys.executable, "/work/server.py"], cwd="/work")
try:
    attempts = 100
    for path in {paths!r}:
        while attempts:
            try:
                answer = urllib.request.urlopen("http://127.0.0.1:{port}" + path)
            except urllib.error.HTTPError as error:
                answer = error
            except OSError:
                time.sleep(0.05)
                attempts -= 1
                continue
            print(answer.status, answer.read().decode(), answer.headers.get({header!r}))
            break
finally:
    server.kill()
"""


def make(rng: random.Random, level: int) -> Case:
    """Level 1: a port and a route. Level 2: a header and a prefix route, too. Level 3: a limit and the order of
    routes, too, and a file that is not valid JSON."""
    port, wrong = rng.sample(range(8000, 9000), 2)
    word, other = rng.sample(("hello", "ready", "welcome", "pong", "open"), 2)
    header, value = f"X-{rng.choice(('Region', 'Team', 'Stage'))}", rng.choice(("north", "blue", "canary"))
    asked = [f"it listens on port {port}", f"GET /{word} is answered with 200 and the text {word}"]
    routes = [{"path": f"/{word}", "text": word}]
    settings = {"port": port, "routes": routes}
    paths, long = [f"/{word}", "/nothing"], f"/files/{'x' * 30}"
    if level >= 2:
        asked += [
            f"every answer has the header {header}: {value}",
            f"everything below /{other}/ is answered with 202 and the text {other}",
        ]
        routes.append({"path": f"/{other}/", "text": other, "status": 202, "prefix": True})  # type: ignore[dict-item]
        settings["headers"] = {header: value}
        paths += [f"/{other}/a", f"/{other}/b/c"]
    if level >= 3:
        asked += [
            "paths may have up to 64 characters",
            f"but /{other}/special is answered with 200 and the text special",
            "everything below /files/ is answered with 200 and the text file",
        ]
        routes.insert(0, {"path": f"/{other}/special", "text": "special"})
        routes.append({"path": "/files/", "text": "file", "prefix": True})  # type: ignore[dict-item]
        settings["limits"] = {"path_characters": 64}
        paths += [f"/{other}/special", long, f"/files/{'y' * 70}"]
    broken = json.dumps({"port": wrong, "routes": [{"path": "/old", "text": "old"}]}, indent=2)
    if level >= 3:
        broken = broken.replace('"text": "old"', '"text": "old",')
    code = ASK.format(paths=paths, port=port, header=header)
    shown = value if level >= 2 else None
    expected = []
    for path in paths:
        status, text = 404, "not found"
        if len(path) > (64 if level >= 3 else 20):
            status, text = 414, "too long"
        else:
            for route in routes:
                if path == route["path"] or (route.get("prefix") and path.startswith(str(route["path"]))):
                    status, text = int(str(route.get("status", 200))), str(route["text"])
                    break
        expected.append(f"{status} {text} {shown}")
    return Case(
        prompt=(
            "/work/server.py is a small server with its settings in /work/settings.json. Change the settings so that:\n- "
            + "\n- ".join(asked)
            + "\n- anything else is answered with 404.\nLeave server.py as it is."
        ),
        files={"server.py": SERVER, "settings.json": broken + "\n"},
        checks=(
            Check(
                "the server answers as asked",
                "python3 -I /check/ask.py",
                "\n".join(expected),
                seconds=30,
                files={"ask.py": code},
            ),
            Check("server.py is unchanged", "cat /work/server.py", SERVER, guards=True),
        ),
        solution=f"cat > /work/settings.json <<'EOF'\n{json.dumps(settings, indent=2)}\nEOF",
    )
