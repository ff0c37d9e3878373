"""The `demur` command line; one module a command."""
