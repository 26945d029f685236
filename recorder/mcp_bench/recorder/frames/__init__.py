"""What passed over the wire: JSON-RPC messages and the bodies that hold them."""
