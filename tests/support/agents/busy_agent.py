"""The source of an agent that works as fast as it can and writes down every response it has read.

Before it reads the next response, it appends the last one to its file (`os.write` with O_APPEND, which survives
the process) and writes one byte to the FIFO `responses`. Every process of the agent, its daemon included, keeps
the FIFO `alive` open: it ends when no process of the agent is left.
"""

from pathlib import Path

SOURCE = """
import collections, json, os, random, subprocess, sys

ALIVE = os.open({alive!r}, os.O_WRONLY)
os.set_inheritable(ALIVE, True)
RESPONSES = os.open({responses!r}, os.O_WRONLY)
ME = os.urandom(6).hex()
CHANCE = random.Random(ME)

if os.fork() == 0:  # a daemon that would stay for ever
    os.setsid()
    if os.fork() == 0:
        import signal
        while True:
            signal.pause()
    os._exit(0)
os.wait()

command = json.load(open(os.environ["CONFIG"]))["command"]
server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[ALIVE])
log = os.open(os.path.join({logs!r}, ME), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
waiting = collections.deque()


def send(method, params):
    waiting.append(f"{{ME}}-{{len(waiting)}}-{{CHANCE.random()}}")
    message = {{"jsonrpc": "2.0", "id": waiting[-1], "method": method, "params": params}}
    server.stdin.write(json.dumps(message).encode() + b"\\n")
    server.stdin.flush()


def receive():
    line = server.stdout.readline()
    if not line.endswith(b"\\n"):
        sys.exit(3)
    os.write(log, line)
    os.write(RESPONSES, b".")
    waiting.popleft()


client = {{"name": "busy", "version": "1"}}
send("initialize", {{"protocolVersion": "2025-06-18", "capabilities": {{}}, "clientInfo": client}})
receive()
server.stdin.write(b'{{"jsonrpc":"2.0","method":"notifications/initialized"}}\\n')
send("tools/list", {{}})
receive()
at_once = CHANCE.choice([1, 1, 2, 8])
for number in range(CHANCE.choice([3, 60, 400])):
    if len(waiting) == at_once:
        receive()
    tool, arguments = CHANCE.choice([
        ("write", {{"key": "sky", "value": "cerulean-sentinel"}}),
        ("write", {{"key": "grass", "value": "viridian-sentinel"}}),
        ("read", {{"key": "none"}}),
        ("pages", {{"size": CHANCE.choice([10, 1000, 1000, 200_000])}}),
    ])
    send("tools/call", {{"name": tool, "arguments": arguments}})
while waiting:
    receive()
"""


def write_busy_agent(folder: Path, *, logs: Path, responses: Path, alive: Path) -> Path:
    """Write the agent into `folder` and return its path."""
    path = folder / "busy.py"
    path.write_text(SOURCE.format(logs=str(logs), responses=str(responses), alive=str(alive)))
    return path
