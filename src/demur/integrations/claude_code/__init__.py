"""Claude Code hooks: judge their events, answer in their format, install them."""
