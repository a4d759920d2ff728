"""PODS for verl (v1 trainer): trainer modes `pods_sync` and `pods_colocate_async`.

Installing podsrl next to verl is enough: verl finds `podsrl.verl.plugin` by its entry point.
"""
