"""Measure missed harm and false refusals, and make the data that repairs them."""
