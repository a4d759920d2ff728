"""Grading in other processes, which may hang, crash or run out of memory without harm.

`pool` divides a batch between workers, `process` is this program's end of one worker, and `serve`
is what runs in the worker.
"""
