"""The request that a thread serves, as the log names it."""

from __future__ import annotations

from contextvars import ContextVar

REQUEST_ID: ContextVar[str] = ContextVar("request_id", default="")
"""Its id; empty where calls are not logged, and where no request is served."""
