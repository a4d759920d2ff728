"""The model behind `pods recommend` beside measurements, and the two numbers that it needs."""
