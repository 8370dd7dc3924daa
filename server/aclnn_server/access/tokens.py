"""Bearer tokens: who may call, and what each may have; from a file that keeps their hashes."""

from __future__ import annotations

import hmac
import logging
import stat
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from aclnn.errors import UnauthenticatedError
from aclnn_server.access.token_file import Entry, digest_of, parse
from aclnn_server.access.watching import read
from aclnn_server.config import ConfigError
from aclnn_server.sessions.tenants import Caller, Tenant

_LOG = logging.getLogger(__name__)

_INDEX_BYTES = 8
"""Bytes of a hash that a token is looked up by; the rest is compared in constant time."""
_WITHDRAWN = "the token was withdrawn"
LEAVING_SECONDS = 5.0
"""Time in which the client of an open call learns at its next request that its token is good no more; a call
without any is broken off then."""


class Tokens:
    """The tokens of a server, as its file had them when it was read last."""

    def __init__(
        self,
        path: str,
        evict: Callable[[Tenant], int],
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Names the file; it is read by :meth:`load`.

        Args:
            path: of the file.
            evict: ends the contexts of a tenant that may make no calls any more.
            now: seconds since 1970, for tokens that expire.
            clock: seconds, for rates.
        """
        self._path = Path(path)
        self._evict = evict
        self._now = now
        self._clock = clock
        self._tenants: dict[str, Tenant] = {}
        self._entries: dict[str, Entry] = {}
        self._callers: dict[bytes, Caller] = {}
        self._index: dict[bytes, list[bytes]] = {}
        self._leaving: dict[Caller, float] = {}

    @property
    def paths(self) -> Sequence[Path]:
        """The file."""
        return [self._path]

    # --- the file ---------------------------------------------------------------------------------

    def load(self) -> None:
        """Reads the file. Who is not in it any more is out: its contexts end.

        Raises:
            ConfigError: it cannot be read, or not be understood.
        """
        entries = parse(read(self._path, "tokens"), str(self._path))
        self._check_permissions(entries)
        self._entries = {entry.name: entry for entry in entries}
        callers = {
            digest: self._caller(digest, entry) for entry in entries for digest in entry.digests
        }
        withdrawn = [c for digest, c in self._callers.items() if callers.get(digest) is not c]
        index: dict[bytes, list[bytes]] = {}
        for digest in callers:
            index.setdefault(digest[:_INDEX_BYTES], []).append(digest)
        self._callers, self._index = callers, index
        for caller in withdrawn:
            self._end(caller, _WITHDRAWN)
        self.pass_time()

    def _caller(self, digest: bytes, entry: Entry) -> Caller:
        tenant = self._tenants.get(entry.name) or self._newcomer(entry.name)
        tenant.change(entry.quota)
        known = self._callers.get(digest)
        return known if known is not None and known.tenant is tenant else Caller(tenant)

    def _newcomer(self, name: str) -> Tenant:
        """A tenant that has had no contexts yet: where its token has expired, there is nothing to end."""
        tenant = self._tenants[name] = Tenant(name, clock=self._clock)
        tenant.ended_because = self._why_not(name)
        if tenant.ended_because:
            _LOG.warning("%s", tenant.ended_because, extra={"owner": name})
        return tenant

    def _check_permissions(self, entries: Sequence[Entry]) -> None:
        mode = self._path.stat().st_mode
        if mode & stat.S_IWOTH:
            raise ConfigError(
                f"tokens is {str(self._path)!r}, which everybody may write; chmod o-w it"
            )
        if mode & stat.S_IROTH and any(entry.plain for entry in entries):
            _LOG.warning("%s has tokens in plain and everybody may read it", self._path)

    def pass_time(self) -> None:
        """Ends the contexts of those whose tokens have expired or are in the file no more."""
        for caller in self._callers.values():
            self._end(caller, self._why_not(caller.tenant.name))
        for caller, since in list(self._leaving.items()):
            if self._clock() - since > LEAVING_SECONDS:
                caller.break_off()
                del self._leaving[caller]
        for name, tenant in self._tenants.items():
            before, tenant.ended_because = tenant.ended_because, self._why_not(name)
            if tenant.ended_because and not before:
                contexts = self._evict(tenant)
                _LOG.info(
                    "%s; %d contexts ended with it",
                    tenant.ended_because,
                    contexts,
                    extra={"owner": name},
                )

    def _end(self, caller: Caller, because: str) -> None:
        if not because:
            self._leaving.pop(caller, None)
        elif not caller.ended_because:
            self._leaving[caller] = self._clock()
        caller.ended_because = because

    def _why_not(self, name: str) -> str:
        """Why a name's tokens are not good, empty where they are."""
        entry = self._entries.get(name)
        if entry is None:
            return _WITHDRAWN
        if entry.expires is not None and self._now() >= entry.expires:
            when = datetime.fromtimestamp(entry.expires, UTC).isoformat().replace("+00:00", "Z")
            return f"the token {name!r} expired at {when}"
        return ""

    # --- calls ------------------------------------------------------------------------------------

    def admit(self, authorization: Sequence[str | bytes]) -> Caller:
        """Who calls.

        Args:
            authorization: values of the call's metadata of that name.

        Raises:
            UnauthenticatedError: no token, none that is known, or one that has expired.
        """
        if not authorization:
            raise UnauthenticatedError(
                "this server asks for a token, and the call brought none: give it as connect(…, token=…), "
                "or to a command as --token-file"
            )
        caller = self._find(_bearer(authorization))
        if because := self._why_not(caller.tenant.name):
            raise UnauthenticatedError(because)
        return caller

    def _find(self, token: bytes) -> Caller:
        given, callers = digest_of(token), self._callers
        for digest in self._index.get(given[:_INDEX_BYTES], ()):
            if hmac.compare_digest(digest, given) and (caller := callers.get(digest)):
                return caller
        raise UnauthenticatedError("the token is not one of this server's")


def _bearer(authorization: Sequence[str | bytes]) -> bytes:
    value = authorization[0]
    scheme, _, token = (
        value if isinstance(value, bytes) else value.encode(errors="replace")
    ).partition(b" ")
    if len(authorization) != 1 or scheme.lower() != b"bearer" or not token.strip():
        raise UnauthenticatedError("the metadata 'authorization' must be once \"Bearer TOKEN\"")
    return token.strip()
