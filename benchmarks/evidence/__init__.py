"""What selection is worth on small models: `python -m benchmarks.evidence.rows`."""
