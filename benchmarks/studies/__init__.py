"""Studies that `pods compare --config` runs, and the tables that are made from their runs."""
