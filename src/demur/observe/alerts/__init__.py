"""Alert rules as data: loaded, evaluated here, and written for others to evaluate."""
