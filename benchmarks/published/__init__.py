"""The published results of the authors: `python -m benchmarks.published FOLDER`."""
