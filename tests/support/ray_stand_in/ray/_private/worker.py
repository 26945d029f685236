"""See `ray`."""

from types import SimpleNamespace

_global_node = SimpleNamespace(get_session_dir_path=lambda: "/nowhere")
