"""What to try on a setting, from what its own runs measured."""
