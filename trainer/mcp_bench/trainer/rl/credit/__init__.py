"""Credit: how the attempts at a task become weights of the tokens that were sampled."""
