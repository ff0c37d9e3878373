"""What all forms share: the note that a file is generated, and safe one-line text."""

import json

__all__ = ["GENERATED_NOTICE", "as_json", "single_line"]

GENERATED_NOTICE = "Generated from the registry of reason codes; do not edit."


def single_line(text: str) -> str:
    """Return `text` on one line and without invisible characters, fit for a comment."""
    visible = "".join(c for c in text if c.isprintable() or c.isspace())
    return " ".join(visible.split())


def as_json(value: object) -> str:
    """Return `value` as JSON for people to read, with a final newline."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
