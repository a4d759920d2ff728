"""What a quarter of an hour on one GPU is to show: `python -m benchmarks.card RAW.jsonl`."""
