"""The version of this package, in one place."""

__all__ = ["ENGINE_VERSION", "__version__"]

__version__ = "0.1.0"
# Raised whenever the same inputs may be decided differently; each record names it.
ENGINE_VERSION = "0.2.0"
