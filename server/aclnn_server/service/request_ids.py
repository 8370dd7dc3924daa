"""Request ids: a unary call that carries one may be repeated, and is made once."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import grpc
from google.protobuf.message import Message

from aclnn.errors import InvalidParameterError
from aclnn.status import REQUEST_ID_KEY
from aclnn_server.service.calls import Call
from aclnn_server.sessions.answers import Answers
from aclnn_server.sessions.registry import Registry

_FORM = re.compile(r"[A-Za-z0-9_-]{22,128}")
_OF_SERVER = ("create_context", "destroy_context", "destroy_stream")
"""Calls whose repeats find no context or stream, yet or any more."""


class RequestIds:
    """What calls with a request id answered: those of a context by the context, the others here."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._answers = Answers(registry.kept_answers)

    def once(
        self,
        rpc: grpc.ServicerContext,
        name: str,
        act: Callable[[Call, Any], Message],
        call: Call,
        request: Any,  # noqa: ANN401 - a message of the schema
    ) -> Message:
        """Makes a call, unless it carries a request id and was made before.

        Raises:
            InvalidParameterError: 161002, the id is too short, or another call's.
            SessionLostError: the call was made, and its answer is not kept any more.
            AclnnError: what the call fails with, or failed with.
        """
        request_id = _request_id(rpc)
        if request_id is None:
            return act(call, request)
        answers = self._owner(name, call, request)
        key = request_id if answers is not self._answers else (call.client, request_id)
        asked = (name, hashlib.sha256(request.SerializeToString(deterministic=True)).digest())
        made: Message = answers.once(
            key, asked, partial(act, call, request), type(request).ByteSize, call.expired
        )
        return made

    def _owner(self, name: str, call: Call, request: Any) -> Answers:  # noqa: ANN401
        context_id = getattr(request, "context_id", "")
        stream_id = getattr(request, "stream_id", "")
        if name in _OF_SERVER or not (context_id or stream_id):
            return self._answers
        if context_id:
            return self._registry.context(context_id, call.tenant).answers
        return self._registry.session(stream_id, call.tenant).context.answers


def _request_id(rpc: grpc.ServicerContext) -> str | None:
    for key, value in rpc.invocation_metadata():
        if key == REQUEST_ID_KEY:
            if not (isinstance(value, str) and _FORM.fullmatch(value)):
                raise InvalidParameterError(
                    f"{REQUEST_ID_KEY} has {len(value)} characters; it must be 22 to 128 letters, digits, "
                    "- and _, and nothing that anybody can guess",
                    parameter=REQUEST_ID_KEY,
                )
            return value
    return None
