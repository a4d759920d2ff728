"""Graders: from a completion to right, wrong, or could not be graded.

`extract` finds where the answer stands in a completion. Four rooms judge it: `math` (numbers and
all other mathematics), `multiple_choice`, `equations` (chemistry) and `sandbox` (programs; with
`python_source`, which tells equal programs). What may hang or crash runs in the processes of
`workers`. `unscorable` counts what could not be graded, and stops when it is too much.
"""
