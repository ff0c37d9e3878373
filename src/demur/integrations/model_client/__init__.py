"""Code that all guarded model clients share.

`ruling_of` and `trail_of` tell how a response, a stream or an exception came about.
"""

from demur.integrations.model_client.trail import Attempt, Trail, ruling_of, trail_of

__all__ = ["Attempt", "Trail", "ruling_of", "trail_of"]
