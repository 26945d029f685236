"""What every task family needs: the decorator that declares it, the builder, and the types of its data."""

from mcp_bench.servers.saasworld.builder import Builder
from mcp_bench.servers.saasworld.draw import Company, Person
from mcp_bench.servers.saasworld.family import family
from mcp_bench.servers.saasworld.seeder import DEPARTMENTS
from mcp_bench.servers.saasworld.state import Record

__all__ = ["DEPARTMENTS", "Builder", "Company", "Person", "Record", "family"]
