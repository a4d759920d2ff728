"""The engine of every comparison: budgets, measurements, processes, the ledger, and looks."""
