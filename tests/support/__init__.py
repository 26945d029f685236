"""What tests share: recorded episodes, stand-ins for agents and servers, a scripted model endpoint."""

from pathlib import Path

SUPPORT = Path(__file__).parent
ROOT = SUPPORT.parents[1]
"""The checkout: put it on `sys.path` of a process that imports `tests.support`."""

DESK_SERVER = SUPPORT / "desk" / "desk_server.py"
NOTEBOOK = SUPPORT / "notebook.py"
