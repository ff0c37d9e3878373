"""From verdict and codes to class, output and the way on; and what authority can lift."""
