"""The agent's processes: started, watched and ended."""
