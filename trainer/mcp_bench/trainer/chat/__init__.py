"""How conversations are written as text: chat templates."""
