"""The seconds that selecting takes, and a training step by phase: `python -m benchmarks.speed`."""
