"""Host: the asynchronous trainer of TRL."""
