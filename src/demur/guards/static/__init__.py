"""Read shell scripts and Python without running them, for the guards of commands and skills."""
