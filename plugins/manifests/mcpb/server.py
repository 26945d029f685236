from mcp_bench.bridge.cli.root import main

main()
