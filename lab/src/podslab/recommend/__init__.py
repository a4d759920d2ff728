"""Advice for a setting, from what its own runs measured."""
