"""What authors of benchmarks build on: base classes of worlds, tools from functions, the answer tool."""
