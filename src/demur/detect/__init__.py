"""Tell refusals in plain prose from answers: fast, local, in many languages."""
