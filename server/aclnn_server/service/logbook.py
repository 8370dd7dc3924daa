"""The log's line for each call and command, at debug."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from aclnn_server.service.calls import Call
from aclnn_server.service.failures import foreseen
from aclnn_server.sessions.requests import REQUEST_ID

_LOG = logging.getLogger(__name__)


def is_kept() -> bool:
    """Whether calls are logged."""
    return _LOG.isEnabledFor(logging.DEBUG)


@contextmanager
def logged(call: Call, method: str) -> Iterator[None]:
    """Logs a call with its end; an unexpected failure in it is logged under the same request id.

    Raises:
        AclnnError: what the call failed with.
    """
    request_id = secrets.token_hex(8)
    before = REQUEST_ID.set(request_id)
    began = time.monotonic()
    code, operator = 0, ""
    try:
        yield
    except Exception as error:
        told = foreseen(error)
        code, operator = told.code, told.operator
        raise told from None
    finally:
        with suppress(ValueError):  # an answer in chunks may be ended by another thread
            REQUEST_ID.reset(before)
        context = call.used_context
        _LOG.debug(
            "%s",
            method,
            extra={
                "request_id": request_id,
                "context": "" if context is None else context.label,
                "owner": call.tenant.name if context is None else context.owner,
                "operator": operator,
                "code": code,
                "seconds": round(time.monotonic() - began, 6),
            },
        )
