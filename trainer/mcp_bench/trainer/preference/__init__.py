"""Learning from preferences: two attempts at a task are compared (DPO), or each is good or bad (KTO)."""
