"""The login of an agent over ACP: variables of the user's, or files that the agent is lent."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mcp_bench.plugins.contracts import LaunchRequest, LentLogin
from mcp_bench.plugins.needs import LoginFile, LoginMissingError
from mcp_bench.servers.errors import WrongUseError

ALONE = "nobody has tested whether two of these agents can renew it at the same time"


def named_login(request: LaunchRequest) -> tuple[dict[str, str], LentLogin | None]:
    """Return the variables and lend the files that the option `login` names, with commas between.

    Raises:
        WrongUseError: a file is not below HOME: the agent would not look for it there.
        LoginMissingError: a file does not exist, or a variable is not set.
    """
    words = [word.strip() for word in request.options.get("login", "").split(",") if word.strip()]
    names = [word for word in words if "/" not in word]
    for name in names:
        if not request.environ.get(name):
            raise LoginMissingError(f"agent option login: the variable {name} is not set")
    files = [login_file(request, word) for word in words if "/" in word]
    for file in files:
        if not file.is_there(request.environ):
            raise LoginMissingError(f"agent option login: there is no file {file.at(request.environ)}")
    return {name: request.environ[name] for name in names}, lend(request, files)


def login_file(request: LaunchRequest, word: str) -> LoginFile:
    """Return the file at a path that begins with `~/` or `/`.

    Raises:
        WrongUseError: it is not below HOME.
    """
    home = Path(request.environ.get("HOME") or "/")
    path = home / word.removeprefix("~/")
    rooted = word.startswith(("~/", "/"))
    if not rooted or ".." in path.parts or not path.parent.is_relative_to(home):
        raise WrongUseError(
            f"agent option login={word}: should be a file below your HOME, such as ~/.kimi/key"
        )
    return LoginFile(path.name, str(path.parent.relative_to(home)), "", alone=ALONE)


def lend(request: LaunchRequest, files: Sequence[LoginFile]) -> LentLogin | None:
    """Lend files by links at the same places in the private HOME.

    In the user's own HOME they are in place already.
    """
    if request.native:
        return joined([file.lent(request.environ) for file in files])
    return joined([file.lend(request.environ, request.home / file.folder) for file in files])


def joined(loans: Sequence[LentLogin]) -> LentLogin | None:
    """Return several loans as one, or None if there are none."""
    if not loans:
        return None
    paths = tuple(dict.fromkeys(path for loan in loans for path in loan.paths))
    return LentLogin(paths, next(filter(None, (loan.alone for loan in loans)), ""))
