"""Reads the numbers of results/comparison, a study that has ended: nothing of it is run again."""
