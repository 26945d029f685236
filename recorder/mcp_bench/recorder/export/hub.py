"""Put an export into a data set repository of the Hugging Face Hub.

The library `huggingface_hub` finds the login where it always does (its environment variable or its own file);
nothing here reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mcp_bench.servers.errors import BenchError, MissingDependencyError


class HubError(BenchError):
    """The Hub refused, or could not be reached; what was exported is there all the same."""


def check_hub() -> None:
    """Raise MissingDependencyError where `huggingface_hub` is not installed."""
    try:
        import huggingface_hub  # noqa: F401
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            "--push needs the Python package huggingface_hub: pip install 'mcp-bench-kit[hub]'"
        ) from error


def push(repository: str, files: Sequence[Path], message: str) -> str:
    """Write files to the root of a data set repository, all in one commit; return the address of the commit.
    A repository that is not there is made, a private one.

    Raises:
        HubError: the name is none of a repository, nobody is logged in, the Hub refuses, or is not reached.
    """
    import httpx2
    from huggingface_hub import CommitOperationAdd, HfApi
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalTokenNotFoundError

    api = HfApi()
    try:
        api.create_repo(repository, repo_type="dataset", private=True, exist_ok=True)
        added = [CommitOperationAdd(path_in_repo=file.name, path_or_fileobj=file) for file in files]
        done = api.create_commit(repository, added, commit_message=message, repo_type="dataset")
    except (HfHubHTTPError, HFValidationError, LocalTokenNotFoundError, httpx2.HTTPError, OSError) as error:
        why = str(error).strip().splitlines()
        raise HubError(
            f"could not push to {repository}: {why[0] if why else type(error).__name__}. The files are where"
            " --out says. Log in with `hf auth login`, or mend the name, and push again with --force"
        ) from error
    return str(done.commit_url)
