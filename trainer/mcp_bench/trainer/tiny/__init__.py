"""A tiny base model made locally, which the demo trains instead of a downloaded model."""
