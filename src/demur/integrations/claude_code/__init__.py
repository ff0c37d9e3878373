"""Claude Code's hooks: their JSON in, their JSON out, and the settings that name them."""
