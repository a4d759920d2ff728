"""Running one run from its settings."""
