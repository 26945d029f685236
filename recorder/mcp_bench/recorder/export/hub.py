"""Push an export to a data set repository of the Hugging Face Hub.

The library `huggingface_hub` reads the login from its environment variable or its own file. mcp-bench never
reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from mcp_bench.servers.errors import BenchError, MissingDependencyError
from mcp_bench.servers.extras import install_extra


class HubError(BenchError):
    """The Hub refused the push or could not be reached. The exported files are written all the same."""


def check_hub() -> None:
    """Check that pushing is possible.

    Raises:
        MissingDependencyError: `huggingface_hub` is not installed.
    """
    try:
        import huggingface_hub  # noqa: F401
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            f"--push needs the Python package huggingface_hub: {install_extra('hub')}"
        ) from error


def push(
    repository: str, folder: Path, names: Sequence[str], message: str, *, of_data: Callable[[str], bool]
) -> str:
    """Commit files of a folder to a data set repository, and return the URL of the commit.

    A repository that does not exist is created as a private one.

    Args:
        repository: Name of the repository.
        folder: Folder of the files.
        names: The files.
        message: Message of the commit.
        of_data: Whether a path in the repository is a file of this data set. The commit deletes those that
            are not in `names`: readers would take them for a part of it.

    Raises:
        HubError: the name of the repository is invalid, there is no login, or the Hub refuses or cannot be
            reached.
    """
    import httpx2
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalTokenNotFoundError

    api = HfApi()
    try:
        api.create_repo(repository, repo_type="dataset", private=True, exist_ok=True)
        there = api.list_repo_files(repository, repo_type="dataset")
        changes: list[CommitOperationAdd | CommitOperationDelete] = [
            *(CommitOperationDelete(path) for path in there if of_data(path) and path not in names),
            *(CommitOperationAdd(path_in_repo=name, path_or_fileobj=folder / name) for name in names),
        ]
        done = api.create_commit(repository, changes, commit_message=message, repo_type="dataset")
    except (HfHubHTTPError, HFValidationError, LocalTokenNotFoundError, httpx2.HTTPError, OSError) as error:
        reason = str(error).strip().splitlines()
        raise HubError(
            f"could not push to {repository}: {reason[0] if reason else type(error).__name__}. The files are"
            " written to --out. Log in with `hf auth login` or correct the name, then push again with --force"
        ) from error
    return str(done.commit_url)
