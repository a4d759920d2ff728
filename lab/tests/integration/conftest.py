"""Fixtures of all tests here."""

from support.comparisons import comparison

__all__ = ["comparison"]
