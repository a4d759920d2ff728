"""Fixtures of the TRL tests; the helpers that tests import are in support/trl_runs.py."""

from support.trl_runs import arithmetic, dataset, make_trainer

__all__ = ["arithmetic", "dataset", "make_trainer"]
