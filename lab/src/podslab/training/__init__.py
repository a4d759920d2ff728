"""Running: one run from its settings, and comparisons of arms over seeds."""
