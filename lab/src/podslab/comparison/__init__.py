"""Comparing algorithms: arms over seeds, at equal budgets."""
