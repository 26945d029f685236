"""A hostile agent in the sandbox of its task. Its answer says for each attempt whether it succeeded.

It runs as one file, after the lines of `tests.support.bench_commands.RPC`. PLACES is put in by the test.
"""
# ruff: noqa

import glob
import http.client
import os
import signal
import socket
import subprocess
import time
from urllib.parse import urlsplit

PLACES = json.loads("""@PLACES@""")
outcome = {}


def attempt(name, function):
    """Note what a function returns: it must be false, or raise."""
    try:
        outcome[name] = bool(function())
    except Exception:
        outcome[name] = False


def works(command):
    return subprocess.run(command, shell=True, capture_output=True, timeout=20).returncode == 0


def printed(command):
    return subprocess.run(command, shell=True, capture_output=True, timeout=20).stdout.strip()


def connects(kind, address):
    with socket.socket(kind, socket.SOCK_STREAM) as one:
        one.settimeout(3)
        one.connect(address)
    return True


def relay(target, headers={}, method="GET"):
    found = urlsplit(CONFIG["endpoint"])
    one = http.client.HTTPConnection(found.hostname, found.port, timeout=10)
    one.request(method, target, headers=headers)
    return one.getresponse().status < 400


server = Server()
server.connect()
own = os.path.dirname(os.environ["HOME"])

for name in ("home", "tests", "benchmark", "packages", "state", "user"):
    attempt(f"read {name}", lambda: printed(f"ls -A {PLACES[name]}/ || head -c1 {PLACES[name]}"))
attempt(
    "find a grade",
    lambda: printed(
        "find / -path /proc -prune -o -name 'grades.db*' -print -o -name recordings.db -print 2>/dev/null"
    ),
)
attempt(
    "find hidden tests",
    lambda: printed("find / -path /proc -prune -o -name 'test_outputs*' -print 2>/dev/null"),
)
attempt("see the referee", lambda: b"mcp_bench.bridge" in printed("cat /proc/[0-9]*/cmdline"))
attempt("signal the referee", lambda: os.kill(PLACES["pid"], 0) or PLACES["pid"])
attempt("signal its launcher", lambda: os.getppid() and (os.kill(os.getppid(), 0) or True))
attempt(
    "other episodes' folders",
    lambda: [p for p in glob.glob("/tmp/mcp-bench-*") if p != own and os.listdir(p)],
)
attempt(
    "sockets besides its own",
    lambda: [
        line
        for line in printed("find / -path /proc -prune -o -type s -print 2>/dev/null").decode().split()
        if not line.startswith(own)
    ],
)
attempt("the machine's loopback", lambda: connects(socket.AF_INET, ("127.0.0.1", PLACES["port"])))
attempt("an abstract socket", lambda: connects(socket.AF_UNIX, "\0" + PLACES["abstract"]))
attempt(
    "the referee's control socket", lambda: connects(socket.AF_UNIX, PLACES["home"] + "/referee/control.sock")
)
attempt("a route out", lambda: connects(socket.AF_INET, ("192.0.2.1", 9)))
attempt("another interface", lambda: [n for _, n in socket.if_nameindex() if n != "lo"])
attempt("the relay without its token", lambda: relay("/v1/models"))
attempt("another host by the relay", lambda: relay(f"http://127.0.0.1:{PLACES['port']}/v1/models"))
attempt("a tunnel by the relay", lambda: relay(f"127.0.0.1:{PLACES['port']}", method="CONNECT"))
attempt(
    "another server of the relay's machine",
    lambda: relay(urlsplit(CONFIG["endpoint"]).path + "/models", {"Host": f"127.0.0.1:{PLACES['port']}"}),
)
for command in (
    "mount -t tmpfs none /mnt", "umount -l /usr", f"umount -l {own}", f"mount -o remount,rw,bind {PLACES['agent']}",
    "unshare -Ur true", "unshare -m true", "nsenter -t 1 -m true", "chroot /tmp true", "mknod /tmp/disk b 254 0",
    f"echo x >>{PLACES['agent']}", f"echo x >>{CONFIG['command'][0]}", "echo x >/usr/bin/planted",
    "echo x >/proc/sys/kernel/core_pattern", "ulimit -u 100000",
):  # fmt: skip
    attempt(command, lambda: works(command))

# what the world's commands see of this agent: it has its own mounts
seen = server.call("bash", command=f"find {own} -type f; cat {own}/mcp/token")
attempt("the token in the world's shell", lambda: open(own + "/mcp/token").read() in json.dumps(seen))
attempt("its files in the world's shell", lambda: "shim.py" in json.dumps(seen))
attempt("its own work", lambda: printed("ls /work"))
endpoint = urlsplit(CONFIG["endpoint"])
attempt("its own relay", lambda: connects(socket.AF_INET, (endpoint.hostname, endpoint.port)))

# fork chains and daemons outlive this program; they must not outlive the attempt
daemon = f"# {PLACES['marker']}\nimport time\nwhile True:\n    open('/work/late', 'a').write('x'); time.sleep(0.01)\n"
nowhere = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
subprocess.Popen([CONFIG["command"][0], "-c", daemon], start_new_session=True, **nowhere)
if os.fork() == 0:
    os.setsid()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:  # each generation is a new process in a session of its own
        if os.fork():
            os._exit(0)
        os.setsid()
        time.sleep(0.005)
    os._exit(0)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
while not os.path.exists("/work/late"):
    time.sleep(0.01)
print(json.dumps(outcome))
