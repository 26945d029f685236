"""Learning from reward: rollouts on live worlds, credit by group, and policy updates."""
