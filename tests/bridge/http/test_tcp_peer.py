"""The process at the other end of a local connection is found by its address, and not by its port alone."""

import os
import socket

import pytest

from mcp_bench.bridge.http.tcp_peer import owners, socket_inode

pytestmark = pytest.mark.component


def test_equal_ports_of_two_addresses_are_two_peers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as other:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as agent:
            own = agent.getsockname()
            other.bind(("127.0.0.2", own[1]))
            other.connect(("127.0.0.1", port))
            for one in (agent, other):
                inode = str(os.fstat(one.fileno()).st_ino)
                assert socket_inode(one.getsockname(), port) == inode
            assert os.getpid() in owners(own, port)
    assert socket_inode(("127.0.0.3", own[1]), port) is None
