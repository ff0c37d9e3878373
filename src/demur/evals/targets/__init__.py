"""The targets that evals are run against, one a module; `opening` makes them from a word."""
