"""From verdict and codes to class, output and next step; and grants that lift a refusal."""
