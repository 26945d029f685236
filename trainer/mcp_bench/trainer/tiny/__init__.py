"""A very small base model, made on the spot: what the demo trains where there is no model to download."""
