"""The tests of tinker-cookbook run in an environment of their own: `nox -s tinker`."""

collect_ignore_glob = ["service.py"]
