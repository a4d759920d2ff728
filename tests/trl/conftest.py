"""Fixtures of the TRL tests; the helpers that tests import are in conftest_trl.py."""

from conftest_trl import arithmetic, dataset, make_trainer

__all__ = ["arithmetic", "dataset", "make_trainer"]
