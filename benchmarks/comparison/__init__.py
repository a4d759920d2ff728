"""One comparison of ways to choose rows, by a protocol that was written before its runs."""
