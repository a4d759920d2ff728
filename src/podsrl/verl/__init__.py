"""PODS for verl (v1 trainer): trainer modes `pods_sync`, `pods_colocate_async` and
`pods_separate_async`.

Installing podsrl next to verl is enough: verl finds `podsrl.verl.plugin` by its entry point.
"""
