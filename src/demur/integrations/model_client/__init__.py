"""What the wrappers of model clients share, whoever's client it is.

`ruling_of` and `trail_of` say what was ruled on a response, a stream or an exception.
"""

from demur.integrations.model_client.trail import Attempt, Trail, ruling_of, trail_of

__all__ = ["Attempt", "Trail", "ruling_of", "trail_of"]
