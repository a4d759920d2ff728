"""What `make bench` measures: one file for each part, which returns numbers and tables of them."""
