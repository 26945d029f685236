"""How models write: chat templates, and the forms of tool calls and reasoning in their answers."""
