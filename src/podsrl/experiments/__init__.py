"""Experiments: comparisons of arms over seeds, and the authors' published results."""
