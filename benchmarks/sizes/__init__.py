"""Seconds and memory of a training step at the paper's sizes, which depend on shapes alone."""
