"""Skills: folders of instructions and code that an agent loads."""
