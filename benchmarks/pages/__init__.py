"""Every measured number of the README and the evidence page: `python -m benchmarks.pages`."""
