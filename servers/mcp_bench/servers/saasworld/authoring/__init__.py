"""What every task family needs: the decorator that declares it, the builder, and the types of its data."""

from mcp_bench.servers.saasworld.authoring.builder import Builder
from mcp_bench.servers.saasworld.authoring.family import family
from mcp_bench.servers.saasworld.engine.draw import Company, Person
from mcp_bench.servers.saasworld.engine.seeder import DEPARTMENTS
from mcp_bench.servers.saasworld.engine.state import Record

__all__ = ["DEPARTMENTS", "Builder", "Company", "Person", "Record", "family"]
