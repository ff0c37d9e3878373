"""Shell commands, PowerShell and Python that are about to run."""
