"""Graders: from text to right, wrong, or could not be graded."""
