"""The bare name of a program, however it was written."""

import re

__all__ = ["program_name"]

_EXTENSION = re.compile(r"\.(?:exe|com|bat|cmd|ps1|vbs|js)$")


def program_name(name: str) -> str:
    """Return the name of a program without its path and extension, in lower case."""
    last = name.replace("\\", "/").rstrip("/").rpartition("/")[2].lower()
    return _EXTENSION.sub("", last) or name
