"""The worth and cost of a step, by the authors' runs and ours: `python -m benchmarks.worth`."""
