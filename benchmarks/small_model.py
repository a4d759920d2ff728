"""An embedded model that is built in about 5 s: for tests and for trials."""

from podslab.models.tiny import TinySettings

#: A tenth of the usual size, for sums of two columns.
SMALL = TinySettings(
    min_columns=2,
    max_columns=2,
    noise=0.15,
    steps=300,
    batch_size=16,
    learning_rate=4e-3,
    hidden_size=64,
    intermediate_size=128,
    layers=2,
    heads=2,
    key_value_heads=2,
)
