"""Benchmarks and worlds are plain objects: what they lack has a default, and what they have is read as it is."""

from operator import attrgetter

import pytest

from mcp_bench.servers.contracts import BenchmarkDefaults, WorldDefaults, with_defaults

pytestmark = pytest.mark.unit


class Plain:
    __slots__ = ("why",)
    private_splits = ("vault",)

    def missing(self) -> str:
        return self.why

    @property
    def install(self) -> str:
        return f"repair {self.why}"


def test_an_object_without_a_base_class_has_all_parts() -> None:
    plain = Plain()
    parts = with_defaults(plain, BenchmarkDefaults)
    plain.why = "the roof"  # parts are read when they are needed, not before
    assert (parts.private_splits, parts.missing(), parts.install) == (
        ("vault",),
        "the roof",
        "repair the roof",
    )
    assert (parts.own_files, parts.by_hand, parts.prepare_split("vault")) == (False, None, None)
    assert with_defaults(plain, WorldDefaults).changes_tools is False


def test_a_part_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(AttributeError, match="own_file"):
        attrgetter("own_file")(with_defaults(Plain(), BenchmarkDefaults))
