"""Published ways of choosing rollouts, side by side at equal time."""
