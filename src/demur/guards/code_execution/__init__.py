"""The command or code that is about to run, read as its interpreter would read it."""
