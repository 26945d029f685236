"""The engine that records on the nodes of a Ray cluster.

`engine` is in the run's process. It starts Ray's driver, `driver`, a process of its own, so that nothing that
Ray does to its process ends a run badly. The driver starts an actor, `node`, on each node, which starts a
referee process there. Orders and reports pass along this line as they are: see
`mcp_bench.bridge.engines.messages`.
"""
