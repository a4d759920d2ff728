"""Sets of questions for the pretrained model, by its pass rates: `python -m benchmarks.answers`."""
