"""PODS on one GPU: `python -m benchmarks.gpu`."""
