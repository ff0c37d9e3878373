"""The gate at work in an agent: what may be asked, called, shown and said, and the words for no."""
