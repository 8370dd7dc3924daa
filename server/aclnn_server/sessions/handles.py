"""Tables of what clients name by an id of their own choice."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from aclnn.errors import HandleNotFoundError, LimitExceededError

T = TypeVar("T")

SERVER_IDS_FROM = 2**62
"""Ids that the server chooses begin here, out of the way of those that clients count from 1."""


class Handles(Generic[T]):
    """Objects of one kind in one context, by id."""

    def __init__(self, what: str, limit: int) -> None:
        self.what = what
        self.limit = limit
        self._items: dict[int, T] = {}
        self._server_ids = itertools.count(SERVER_IDS_FROM)
        self._lock = threading.RLock()

    def add(self, handle: int, make: Callable[[int], T]) -> T:
        """Keeps what `make` makes under `handle` (0: the server chooses), or finds what is there.

        Raises:
            LimitExceededError: the table is full.
        """
        with self._lock:
            found = self._items.get(handle)
            if found is not None:
                return found
            check_room(len(self._items), self.limit, f"{self.what}s")
            handle = handle or next(self._server_ids)
            made = self._items[handle] = make(handle)
            return made

    def get(self, handle: int) -> T | None:
        """Finds an object, or ``None``."""
        return self._items.get(handle)

    def find(self, handle: int, parameter: str = "", operator: str = "") -> T:
        """Finds an object.

        Raises:
            HandleNotFoundError: there is none of that id.
        """
        found = self._items.get(handle)
        if found is None:
            raise self._unknown(handle, parameter, operator)
        return found

    def take(self, handle: int, parameter: str = "") -> T:
        """Finds an object and forgets it; for one caller only, whoever is first. Errors as :meth:`find`."""
        with self._lock:
            found = self._items.pop(handle, None)
        if found is None:
            raise self._unknown(handle, parameter, "")
        return found

    def take_all(self, select: Callable[[T], bool] = lambda _: True) -> list[T]:
        """Forgets the objects that `select` selects, and gives them."""
        with self._lock:
            chosen = {handle: item for handle, item in self._items.items() if select(item)}
            for handle in chosen:
                del self._items[handle]
        return list(chosen.values())

    def _unknown(self, handle: int, parameter: str, operator: str) -> HandleNotFoundError:
        return unknown(f"{self.what} {handle}", parameter or f"{self.what}_id", operator)

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[T]:
        with self._lock:
            return iter(list(self._items.values()))


def unknown(what: str, parameter: str = "", operator: str = "") -> HandleNotFoundError:
    """The error for an id that does not exist or is another context's: the same text for both."""
    return HandleNotFoundError(
        f"{what} does not exist in this context", parameter=parameter, operator=operator
    )


def unknown_context() -> HandleNotFoundError:
    """The error for a context that does not exist, is another token's or has ended: the same for all."""
    return HandleNotFoundError(
        "the context does not exist, or has ended: destroyed, or silent for longer than its lease",
        parameter="context_id",
    )


def check_room(count: int, limit: int, what: str, owner: str = "context") -> None:
    """Checks that one more object may exist.

    Raises:
        LimitExceededError: it may not.
    """
    if count >= limit:
        raise LimitExceededError(
            f"the {owner} has {count} {what}; at most {limit} are allowed", retry_after_ms=100
        )
