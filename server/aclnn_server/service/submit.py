"""Submit: batches of commands over an open call, applied in order, once each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain

from aclnn.errors import InvalidParameterError
from aclnn.wire import RawBatch
from aclnn_server.service.applying import QUICK_COMMANDS, Applier, Applying, Commands
from aclnn_server.service.calls import Call
from aclnn_server.service.in_hand import InHand
from aclnn_server.service.open_calls import OpenCalls, WhenOver
from aclnn_server.service.seen_calls import SeenCalls
from aclnn_server.sessions.context import Context
from aclnn_server.sessions.meters import Tally
from aclnn_server.sessions.registry import Registry
from aclnn_server.sessions.tenants import Caller

Over = Callable[[], bool]
"""Tells that the client is gone."""


class SubmitCalls:
    """Serves Submit."""

    def __init__(
        self, registry: Registry, commands: Commands, in_hand: InHand, open_calls: int
    ) -> None:
        self._registry = registry
        self._applier = Applier(commands, in_hand)
        self.open = OpenCalls(open_calls)

    def serve(
        self, requests: Iterator[RawBatch], caller: Caller, over: Over, when_over: WhenOver
    ) -> Iterator[bytes]:
        """Serves one call, from its first request to its last; gives the encoded answers.

        Args:
            requests: as they come.
            caller: whose call it is.
            over: tells that the client is gone.
            when_over: calls back when it is; tells whether it is not gone yet.
        """
        with self.open.counted():
            first = next(requests, None)
            if first is None:
                return
            with self.begun(first, caller, over, when_over) as submit:
                for batch in chain((first,), requests):
                    yield submit.answer(batch)

    @contextmanager
    def begun(
        self, first: RawBatch, caller: Caller, over: Over, when_over: WhenOver
    ) -> Iterator[OpenSubmit]:
        """A call from its first request on; arguments and effect as of :meth:`serve`.

        Raises:
            InvalidParameterError: 161002, the request names no context.
            HandleNotFoundError, SessionLostError: there is no such context, or not any more.
            LimitExceededError: 207012, the context has as many open as allowed.
        """
        if not first.context_id:
            raise InvalidParameterError(
                "the first request names no context", parameter="context_id"
            )
        context = self._registry.context(first.context_id, caller.tenant)
        with self.open.counted_in(context, when_over), _tallied(context) as tally:
            call = Call(self._registry, context, tally=tally, seen=SeenCalls())
            yield OpenSubmit(self._applier, call, context, caller, over)


class OpenSubmit:
    """One open call that has named its context; its requests come one after the other."""

    def __init__(
        self, applier: Applier, call: Call, context: Context, caller: Caller, over: Over
    ) -> None:
        self._applier = applier
        self._call = call
        self._caller = caller
        self._batches = context.batches
        self._context = context
        self._over = over
        # Calls of other devices wait for the thread that makes them.
        self._is_quick = context.device.shares_plans and not applier.logged

    def answer(self, batch: RawBatch) -> bytes:
        """Applies a request and gives its encoded answer, whatever time it takes.

        Raises:
            UnauthenticatedError: the caller's token is not good any more.
            InvalidParameterError, SessionLostError, CancelledError: as ``Batches.once`` has them.
        """
        if self._paced:
            self._caller.proceed(self._over)
        self._context.renew()
        return self._batches.once(
            batch.sequence,
            batch.acknowledged,
            lambda: self._applied(Applying(self._applier, self._call, batch)),
            self._over,
        )

    def begin(self, batch: RawBatch) -> bytes | Callable[[], bytes]:
        """Applies a request as far as that takes no time, and never waits.

        Returns:
            The encoded answer, or what goes on to give it, with the failures of :meth:`answer`.

        Raises:
            InvalidParameterError, SessionLostError: as ``Batches.once`` has them.
        """
        number, batches = batch.sequence, self._batches
        if (
            not self._is_quick
            or not number
            or len(batch.commands) > QUICK_COMMANDS
            or self._paced
            or not batches.try_turn()
        ):
            return lambda: self.answer(batch)
        done = True
        try:
            self._context.renew()
            answer = batches.kept(number, batch.acknowledged)
            if answer is not None:
                return answer
            applying = Applying(self._applier, self._call, batch)
            done = applying.go_on(quick=True)
            if done:
                answer = applying.answer()
                batches.keep(number, answer)
                return answer
        finally:
            if done:
                batches.end_turn()
        return lambda: self._end(applying, number)

    @property
    def _paced(self) -> bool:
        """Whether a request may have to wait, or be refused, for who makes it."""
        return bool(self._caller.ended_because or self._caller.tenant.calls)

    def _end(self, applying: Applying, number: int) -> bytes:
        try:
            answer = self._applied(applying)
            self._batches.keep(number, answer)
            return answer
        finally:
            self._batches.end_turn()

    @staticmethod
    def _applied(applying: Applying) -> bytes:
        applying.go_on()
        return applying.answer()


@contextmanager
def _tallied(context: Context) -> Iterator[Tally | None]:
    """What counts the commands of a call, where that is counted."""
    if (meter := context.meter) is None:
        yield None
        return
    tally = meter.open()
    try:
        yield tally
    finally:
        meter.close(tally)
