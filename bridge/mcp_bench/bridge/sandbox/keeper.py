"""Keep one sandbox: mount its files, start it, and end it.

The referee starts `python -I -S keeper.py` under a supervisor and talks with it over stdin and stdout
(channel.py). The first message describes the sandbox (`Spec` below). The keeper mounts what only root can
mount. Then it becomes the root of a user namespace of its own, and has no right over anything outside any
more. Only the standard library is imported.

Messages from the referee, besides those that `inside.py` answers:
- `renew`: end every process, and start again over the files, or without them if `fresh`; `mounts` are folders
  of `place`, by path,
- `place`: make a folder that `renew` can mount read-only, `tree`, with `files`: path, mode and size of each,
  whose contents are the body, one after the other,
- `commit`: end every process, and start again over the files, which belong to the base from now on; they are
  `trusted` if no agent has worked on them,
- `halt`: end every process,
- `changes`: list what differs from the base, for `seconds` at most,
- `discard`: remove all files.

Messages to the referee: `started`, with what is enforced; `failed`, with the reason; `over`, with the limit
that was exceeded; `died` after all processes were killed from inside; and answers. All have an `id`: of the
message that they answer; `over`, of the last message before it; `died`, of the last that the processes got.
"""

import json
import os
import select
import shutil
import signal
import socket
import sys
import time
from contextlib import suppress
from typing import Any

ROOT = __file__.rsplit("/", 4)[0]
sys.path.append(ROOT)
from mcp_bench.bridge.isolation import confine  # noqa: E402
from mcp_bench.bridge.process.descendants import become_subreaper, end_descendants  # noqa: E402
from mcp_bench.bridge.process.limits import TICK_SECONDS, Watch, lower_own  # noqa: E402
from mcp_bench.bridge.sandbox import bubblewrap, changes, inside, kernel, skeleton  # noqa: E402
from mcp_bench.bridge.sandbox.channel import Incoming, answers, packed, write_all  # noqa: E402

sys.path.remove(ROOT)

Spec = dict[str, Any]
"""`state`: the folder of the sandbox's files, which is its user's own. `layers`: folders that are its base,
the topmost first. `host`: whether this machine's programs are below, read-only. `masked`: folders of /usr
that it must not have. `uid`, `block`: the user to be, and its further ids, or null. `network`: whether it has
the machine's. `limits`: see `mcp_bench.servers.sandbox.SandboxLimits`. `cgroups`: folders to join.
`namespaces`: no filter refuses new user namespaces, the kernel's own limit does. `env`, `workdir`, `probes`:
see `mcp_bench.bridge.sandbox.probe.arguments`."""

PLACE = "/tmp"
"""Where the sandbox's folder is mounted, in the keeper's own mount namespace."""
MOST_RESTARTS = 20
"""A sandbox whose processes were all killed from inside starts again over its files, so many times."""
SPARE_PROCESSES = 8
"""Of the sandbox's user: this one, the one inside, bubblewrap's."""


class Keeper:
    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.facts: dict[str, Any] = {}
        """What is enforced, for the record."""
        self.number = -1
        """Of the layer that the sandbox writes to."""
        self.lower: list[str] = []
        self.first = 0
        """The first layer that does not belong to the base."""
        self.trusted = 0
        """How many of `lower`, from the bottom, no agent has written to."""
        self.image = ""
        """Where the trusted layers alone are mounted, while the sandbox runs over files that were left."""
        self.mounts: dict[str, str] = {}
        self.mounted = ""
        self.incoming = Incoming()
        self.link: socket.socket | None = None
        self.restarts = 0
        self.again = False
        """It was started again over its files, after every process was killed."""
        self.passed = 0
        """Id of the last message that the process inside got."""
        self.handled = 0
        """Id of the last message."""
        self.renewed = 0
        """Id of the message that started the sandbox."""
        self.over = ""
        self.watch: Watch | None = None
        self.look_at = 0.0
        self.joined: list[int] = []

    def prepare(self) -> None:
        """Mount the base and give up all rights over the machine.

        Raises:
            OSError: the kernel refused.
        """
        spec = self.spec
        self.joined = [
            os.open(f"{group}/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC) for group in spec["cgroups"]
        ]
        os.chdir(spec["state"])
        most = spec["limits"]["processes"] + SPARE_PROCESSES
        namespace, users = kernel.user_namespace(spec["uid"], spec["block"], most)
        self.lower = [f"layers/{number}" for number in range(len(spec["layers"]))]
        attached = spec["uid"] is not None and self.attach_mapped(namespace)
        if spec["uid"] is not None:
            confine.become(spec["uid"])
        kernel.become_root_of(namespace)
        kernel.private_mounts()
        if not attached:
            self.attach_layers(None)
        self.move_state()  # covers a folder that a layer can be in
        os.umask(0o022)
        os.close(namespace)
        if spec["host"]:
            skeleton.make("skeleton", network=spec["network"])
            self.lower.append("skeleton")
        self.trusted = len(self.lower)
        self.facts |= {
            "users": "many" if users else "one",
            "base_owner": "root" if attached or spec["uid"] is None else "nobody",
        }
        lower_own({"processes": most})
        kernel.hide_memory()

    def move_state(self) -> None:
        """Mount the sandbox's folder where its user can reach it: its parents can be closed to others."""
        state = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        confine.mount("state", PLACE, "tmpfs", confine.MS_NOSUID | confine.MS_NODEV, "mode=711,size=64k")
        os.mkdir(f"{PLACE}/state")
        kernel.attach(state, f"{PLACE}/state", below=True)
        os.chdir(f"{PLACE}/state")
        os.close(state)

    def attach_mapped(self, namespace: int) -> bool:
        """Mount the layers as files of the sandbox's root, while this is root of the machine."""
        try:
            kernel.private_mounts()
            self.attach_layers(namespace)
            if self.lower:
                os.chown("layers", self.spec["uid"], self.spec["uid"])
        except OSError:
            return False
        return True

    def attach_layers(self, mapping: "int | None") -> None:
        for layer, place in zip(self.spec["layers"], self.lower, strict=True):
            os.makedirs(place, exist_ok=True)
            # opened here: a mount of the namespace that this process has left cannot be copied
            opened = os.open(layer, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                kernel.attach(opened, place, mapping)
            finally:
                os.close(opened)

    def start(self) -> None:
        """Start the sandbox over the current layers.

        Raises:
            OSError: it could not be started.
        """
        names = ("files/upper", "files/work", "merged")
        upper, work, merged = (f"{name}-{self.number}" for name in names)
        for name in (upper, work, merged):
            os.makedirs(name, exist_ok=True)
        spec, system = self.spec, list[str]()
        if self.judged():
            system = self.restored(upper)
            spec = {**spec, "env": skeleton.trusted_variables(spec["env"])}
        for target in self.mounts:  # folders of ours, whatever link the agent has left there
            skeleton.make_folders(upper, target)
        kernel.overlay(self.lower, upper, work, merged)
        self.mounted = merged
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                ours.close()
                for descriptor in (0, 1):
                    os.dup2(os.open(os.devnull, os.O_RDWR), descriptor)
                code = inside.run(
                    theirs,
                    self.joined,
                    bubblewrap.command(spec, merged, self.image, system, self.mounts),
                    spec,
                    os.getppid(),
                )
            finally:
                os._exit(code)
        theirs.close()
        self.link, self.incoming = ours, Incoming()

    def judged(self) -> bool:
        """Return whether files that an agent left are below."""
        return len(self.lower) > self.trusted

    def restored(self, upper: str) -> "list[str]":
        """Let the folders of the system be those of the trusted layers; return those to mount."""
        self.image = f"image-{self.number}"
        os.makedirs(self.image, exist_ok=True)
        kernel.overlay_of(self.lower[-self.trusted :], self.image)
        return skeleton.restore_system(self.image, upper)

    def halt(self) -> None:
        """End every process of the sandbox."""
        if self.link is not None:
            self.link.close()
            self.link = None
        end_descendants()
        if self.mounted:
            kernel.unmount(self.mounted)
            self.mounted = ""
        if self.image:
            kernel.unmount(self.image)
            self.image = ""

    def renew(self, mounts: "dict[str, str]", *, fresh: bool = False) -> None:
        """Start a new sandbox over the files of the last one, which are read-only from now on.

        Args:
            fresh: start without them, over the base alone.
        """
        self.halt()
        self.over, self.again, self.renewed = "", False, self.handled
        if fresh:
            left = range(self.first, self.number + 1)
            self.lower = self.lower[len(left) - 1 :]
            self.first = self.number + 1
            for number in left:
                shutil.rmtree(f"files/upper-{number}", ignore_errors=True)
        elif self.number >= 0:
            self.lower.insert(0, f"files/upper-{self.number}")
        self.number += 1
        for tree in set(self.mounts.values()) - set(mounts.values()):
            shutil.rmtree(f"trees/{tree}", ignore_errors=True)
        self.mounts = mounts
        self.start()

    def commit(self, *, trusted: bool) -> None:
        """Start a new sandbox over the files of the last one, as a part of its base."""
        if trusted and not self.judged():
            self.trusted += 1
        self.first = self.number + 1
        self.renew({})

    def died(self) -> None:
        """Start again after every process was killed from inside, or end: never over files of judged code."""
        self.halt()
        self.restarts += 1
        if self.mounts or self.judged():
            self.exceeded("every process was killed")
        elif self.restarts > MOST_RESTARTS:
            self.exceeded(
                f"restarts: the sandbox's processes were all killed more than {MOST_RESTARTS} times"
            )
        else:
            send({"died": True, "id": self.passed})
            self.again = True
            try:
                self.start()
            except OSError as error:
                self.not_again(str(error))

    def not_again(self, reason: str) -> None:
        self.exceeded(f"every process was killed, and it does not start again over its files: {reason}")

    def exceeded(self, text: str) -> None:
        self.over = text
        self.halt()
        send({"over": text, "id": self.handled})

    def discard(self) -> None:
        from pathlib import Path  # slow to import

        from mcp_bench.bridge.wire.remove_folder import remove_folder

        self.halt()
        for number in range(len(self.spec["layers"])):
            kernel.unmount(f"layers/{number}")
        held = os.open(".", os.O_PATH | os.O_DIRECTORY)
        remove_folder(Path(self.spec["state"]), held)

    def handle(self, head: "dict[str, Any]", body: bytes) -> None:
        """Answer one message of the referee."""
        self.handled = head["id"]
        answer: dict[str, Any] = {"id": head["id"]}
        try:
            match head["op"]:
                case "renew":
                    self.renew(head["mounts"], fresh=head["fresh"])
                    return  # the process inside answers
                case "commit":
                    self.commit(trusted=head["trusted"])
                    return
                case "place":
                    skeleton.make_tree(f"trees/{head['tree']}", head["files"], body)
                case "halt":
                    if self.link is not None and not (self.again or answers(self.link, self.incoming, send)):
                        self.died()  # counts it; what it starts again ends at once
                    self.halt()
                case "changes":
                    numbers = range(self.first, self.number + 1)
                    uppers = [f"files/upper-{number}" for number in numbers]
                    found = changes.of(uppers, changes.Reading(self.spec["limits"], head["seconds"]))
                    send(answer, json.dumps(found).encode())
                    return
                case "discard":
                    sys.path.append(ROOT)
                    self.discard()
                case _ if self.link is not None:
                    self.passed = head["id"]
                    with suppress(OSError):  # it has ended: `died` answers
                        self.link.sendall(packed(head, body), socket.MSG_NOSIGNAL)
                    return
                case _:
                    answer["error"] = self.over or "the sandbox has ended"
        except changes.TooLongError as error:
            self.exceeded(str(error))
            return
        except OSError as error:
            answer["error"] = str(error)
        send(answer)

    def serve(self) -> None:
        """Serve the referee until it closes the pipe."""
        requests, limits = Incoming(), self.spec["limits"]
        self.watch = Watch({**limits, "processes": 2 * limits["processes"] + 64, "folder": "files"})
        while True:
            waiting = [0] if self.link is None else [0, self.link.fileno()]
            ready, _, _ = select.select(waiting, [], [], TICK_SECONDS)
            if 0 in ready:
                chunk = os.read(0, 1 << 20)
                if not chunk:
                    return
                for head, body in requests.feed(chunk):
                    self.handle(head, body)
            if self.link is not None and self.link.fileno() in ready:
                self.relay(self.link)
            if time.monotonic() >= self.look_at:
                self.look_at = time.monotonic() + TICK_SECONDS
                self.reap()
                if self.link is not None and (text := self.watch.over()):
                    self.exceeded(text)

    def relay(self, link: socket.socket) -> None:
        """Pass on what the process inside says."""
        try:
            chunk = link.recv(1 << 20)
        except OSError:
            chunk = b""
        if not chunk:
            self.died()
            return
        for head, body in self.incoming.feed(chunk):
            if self.again and "failed" in head:
                self.not_again(head["failed"])
                return
            send({**head, **({"facts": self.facts, "id": self.renewed} if "started" in head else {})}, body)

    def reap(self) -> None:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass


def send(head: "dict[str, Any]", body: bytes = b"") -> None:
    write_all(1, packed(head, body))


def main() -> None:
    become_subreaper()
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    keeper: Keeper | None = None
    incoming = Incoming()
    while keeper is None:
        chunk = os.read(0, 1 << 20)
        if not chunk:
            return
        for head, _ in incoming.feed(chunk):
            keeper = Keeper(head)
    try:
        keeper.prepare()
        keeper.renew({})
    except OSError as error:
        send({"failed": str(error)})
        return
    keeper.serve()


if __name__ == "__main__":
    main()
