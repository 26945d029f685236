"""No sealed data reaches the agent or the recording."""

import json
from collections.abc import Callable

import pytest

pytestmark = pytest.mark.system

Write = Callable[[str], str]

SEALED = (
    "cerulean-sentinel",
    "viridian-sentinel",
    "expects-sky",
    "final-state-of-the-notebook",
    "notebook-1",
)

# What an agent can see without any action: the wire, its environment, command line and folder.
LOOKS_AROUND = """
server = Server()
print(server.connect())
print(dict(os.environ), open("/proc/self/cmdline").read(), open(f"/proc/{os.getppid()}/cmdline").read())
for folder, _, files in os.walk(os.path.dirname(os.environ["HOME"])):
    for file in files:
        print(file, open(os.path.join(folder, file), errors="replace").read())
"""


def leaks(data: bytes) -> list[str]:
    return [word for word in SEALED if word.encode() in data]


def everything_but_the_grades(bench) -> bytes:
    files = [
        path for path in bench.home.rglob("*") if path.is_file() and not path.name.startswith("grades.db")
    ]
    assert any(path.name == "recordings.db" for path in files)
    return b"".join(path.read_bytes() for path in files)


def test_an_agent_that_looks_around_sees_nothing_of_the_grade(bench, script: Write) -> None:
    bench.run(
        "record", "--agent", "script", "--benchmark", "notebook", "--agent-option", script(LOOKS_AROUND)
    )
    seen = everything_but_the_grades(bench)
    assert b"Fill the page of colours" in seen
    assert leaks(seen) == []
    sealed = (bench.run_folder / "grades.db").read_bytes()
    assert leaks(sealed) == list(SEALED)  # the words to search for are correct


def test_a_noop_leaves_nothing_sealed_in_the_recording(bench) -> None:
    bench.run("record", "--agent", "noop", "--benchmark", "notebook", "--split", "all")
    assert leaks(everything_but_the_grades(bench)) == []
    assert [grade["strict"] for grade in bench.grades()] == [0, 0]


def test_sealed_files_are_the_owner_s_alone(bench) -> None:
    bench.run("record", "--agent", "noop", "--benchmark", "notebook", "--limit", "1")
    assert bench.run_folder.stat().st_mode & 0o777 == 0o700
    assert (bench.run_folder / "grades.db").stat().st_mode & 0o777 == 0o600


def test_the_users_environment_stays_outside(bench, script: Write) -> None:
    bench.environ.update(OPENAI_API_KEY="key-sentinel", SECRET="secret-sentinel")
    bench.run(
        "record", "--agent", "script", "--benchmark", "notebook", "--agent-option", script(LOOKS_AROUND)
    )
    seen = everything_but_the_grades(bench)
    assert b"key-sentinel" not in seen
    assert b"secret-sentinel" not in seen


@pytest.mark.parametrize("command", ["show", "report"])
def test_the_operator_sees_the_grade(bench, command: str) -> None:
    bench.run("record", "--agent", "oracle", "--benchmark", "notebook", "--limit", "1")
    (episode,) = bench.rows("select id from episodes")
    target = [episode["id"]] if command == "show" else []
    shown = json.loads(bench.run(command, *target, "--json").stdout)
    grade = shown["grade"] if command == "show" else shown[0]
    assert (grade["partial"], bool(grade["strict"])) == (1.0, True)
