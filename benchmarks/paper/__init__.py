"""The paper's experiments in a small version, on one CPU thread."""
