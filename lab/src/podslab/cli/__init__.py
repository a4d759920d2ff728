"""The verbs of the command `pods` that belong to the laboratory."""
