"""Scan a skill or plugin folder before it is trusted; `guard` holds the check."""
