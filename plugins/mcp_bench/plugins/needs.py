"""What an agent needs of the machine it runs on, told by its plugin and checked by `mcp-bench doctor`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mcp_bench.plugins.login import LoginFile


@dataclass(frozen=True)
class Needs:
    """An agent class may have one as its attribute `needs`; what is not told is not checked."""

    model: bool = True
    """It asks a model."""
    tested: str | None = None
    """The version that the plugin was written for and is tested with."""
    node: int | None = None
    """The oldest major version of Node.js that it works with."""
    login: tuple[str, ...] = ()
    """Variables of the user's, any of which logs in."""
    bound: tuple[str, ...] = ()
    """Those of them that are of no use at another endpoint than its default one."""
    login_files: tuple[LoginFile, ...] = ()
    log_in: str = ""
    """What the user runs in order to log in."""
    endpoint: str | None = None
    """URL of its default model endpoint; None where that depends on the model."""
    endpoints: Mapping[str, str] = field(default_factory=dict)
    """Default endpoints that go with a variable of `login`."""
    endpoint_variables: tuple[str, ...] = ()
    """Variables that name another endpoint."""
    own_endpoint: bool = True
    """It can be pointed at another endpoint (`--base-url`)."""

    def endpoint_for(self, environ: Mapping[str, str], base_url: str | None = None) -> str | None:
        """Return where its model requests would go, None where that cannot be told."""
        told = [base_url if self.own_endpoint else None]
        told += [environ.get(name) for name in self.endpoint_variables]
        told += [self.endpoints[name] for name in self.login if environ.get(name) and name in self.endpoints]
        return next(filter(None, told), self.endpoint)


NOTHING = Needs(model=False)
"""For agents that ask no model."""
