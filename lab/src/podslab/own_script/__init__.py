"""Comparing methods on a training script of the user's own."""
