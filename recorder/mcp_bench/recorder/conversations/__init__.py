"""Episodes as conversations: model turns aligned with the recorded calls."""
