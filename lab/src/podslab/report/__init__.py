"""Reports from saved runs: figures, a table, and one page with a rollout inspector."""
