"""Names of the engines that run sandboxes. Nothing is imported: the command line shows them."""

AUTO = "auto"
ENGINES = ("bwrap", "podman", "docker")
"""The preferred ones first."""
