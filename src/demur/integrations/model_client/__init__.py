"""Code that all guarded model clients share.

`read_check_result` and `read_trace` tell how a response, a stream or an exception came about.
"""

from demur.integrations.model_client.trail import (
    ModelAttempt,
    CallTrace,
    read_check_result,
    read_trace,
)

__all__ = ["ModelAttempt", "CallTrace", "read_check_result", "read_trace"]
