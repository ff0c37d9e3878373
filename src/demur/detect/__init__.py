"""Refusals that models write as plain prose, told from answers."""
