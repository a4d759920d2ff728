"""What a step is worth and costs, by the authors' runs and ours: `python -m benchmarks.worth`."""
