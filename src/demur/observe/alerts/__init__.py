"""Alert rules as data: loaded, evaluated, and exported to other tools."""
