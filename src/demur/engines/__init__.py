"""Runs work on engines that others operate: one function over many pieces, on Spark or Ray.

Nothing here knows what the work is. demur has to be installed where the workers run.
"""
