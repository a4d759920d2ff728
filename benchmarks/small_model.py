"""An embedded model that is built in about 6 s on two cores: for tests and for trials."""

from podslab.models.tiny import TinySettings

#: A tenth of the usual size, for sums of two columns.
SMALL = TinySettings(
    min_columns=2,
    max_columns=2,
    steps=300,
    learning_rate=4e-3,
    hidden_size=64,
    intermediate_size=128,
    layers=2,
    heads=2,
    key_value_heads=2,
)
