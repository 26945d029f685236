"""Sandboxes as containers of podman or docker."""
