"""demur inside the frameworks people use: one module each, imported only where it is wanted."""
