"""Evidence on the embedded task: `python -m benchmarks.evidence`."""
