"""Measuring a model on held-out problems: sample, grade, count."""
