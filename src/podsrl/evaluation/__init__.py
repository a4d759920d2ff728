"""Measuring a model on held-out problems, and the records that a run leaves behind."""
