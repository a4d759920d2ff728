"""A run's folder: its config, metrics, evaluations, rollouts and environment."""
