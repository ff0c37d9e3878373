"""Adapters, one for each framework. Importing `demur` loads none of them."""
