"""Models that play a role in worlds: user, judge, opponent. Their requests leave from the referee."""
