"""Graders: from a completion to right, wrong, or could not be graded.

`extract` finds where the answer stands in a completion. It is judged by `math` (numbers and all
other mathematics), `multiple_choice`, `equations` (chemistry) or `sandbox` (programs). What may
hang or crash runs in the processes of `pool`. `unscorable` counts what could not be graded, and
stops when it is too much.
"""
