"""What was decided, looked at again: packed, told, replayed, held against another policy."""
