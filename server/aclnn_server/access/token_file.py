"""The file of the tokens: a TOML table for each name, with the hash of its token and its quota."""

from __future__ import annotations

import difflib
import hashlib
import json
import re
import secrets
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from typing import Any

from aclnn_server.config import ConfigError
from aclnn_server.sessions.tenants import Quota

PREFIX = "aclnn_"
"""Beginning of the tokens that are made here: programs that look for secrets in files know them by it."""
SHORTEST_TOKEN = 20
"""Characters of a token that somebody else has made, at least."""
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_KEYS = (
    "sha256",
    "token",
    "expires",
    "memory_bytes",
    "contexts",
    "contexts_per_second",
    "calls_per_second",
    "devices",
    "admin",
)


@dataclass(frozen=True, slots=True)
class Entry:
    """What the file has under one name."""

    name: str
    digests: tuple[bytes, ...]
    """SHA-256 of each of its tokens; there is more than one while one takes the other's place."""
    expires: float | None
    """Seconds since 1970."""
    quota: Quota
    plain: bool
    """Whether the file has the token itself."""


def make_token() -> str:
    """A new token of 256 random bits."""
    return PREFIX + secrets.token_urlsafe(32)


def digest_of(token: bytes) -> bytes:
    """What the file keeps of a token. It needs no salt and no slowness: nobody guesses 256 random bits."""
    return hashlib.sha256(token).digest()


def check_name(name: str) -> str:
    """The name.

    Raises:
        ConfigError: it cannot be one.
    """
    if _may_be_token(name) and name.startswith(PREFIX):
        raise ConfigError(f"a name begins with {PREFIX}, as tokens do; give it another")
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{name!r} is no name: 1 to 64 of the letters A to z, digits, _ and -")
    return name


def write_entry(name: str, token: str, settings: Mapping[str, Any]) -> str:
    """A name's lines for the file; what they say is checked as if they were read.

    Raises:
        ConfigError: a name or setting cannot be.
    """
    values = {"sha256": digest_of(token.encode()).hex(), **settings}
    lines = [f"[{check_name(name)}]", *(f"{key} = {_toml(value)}" for key, value in values.items())]
    text = "\n".join(lines) + "\n"
    parse(text.encode(), "the token")
    return text


def _toml(value: object) -> str:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return json.dumps(value)


# --- reading ----------------------------------------------------------------------------------------


def parse(content: bytes, source: str) -> list[Entry]:
    """Reads the file's content.

    Args:
        content: the file's.
        source: its name, for errors; they never tell what a token or a hash is.

    Raises:
        ConfigError: it is no TOML, has no token, or something in it cannot be.
    """
    try:
        tables = tomllib.loads(content.decode())
    except UnicodeDecodeError:
        raise ConfigError(f"{source}: it is no text in UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        where = re.search(r"\(at .*\)", str(error))  # the rest may tell what is there
        raise ConfigError(f"{source}: it is no TOML {where[0] if where else ''}".rstrip()) from None
    if not tables:
        raise ConfigError(f"{source}: there is no token in it; aclnn-serve token NAME makes one")
    entries = [_entry(name, table, source) for name, table in tables.items()]
    owners: dict[bytes, str] = {}
    for entry in entries:
        for digest in entry.digests:
            if digest in owners:
                raise ConfigError(
                    f"{source}: {owners[digest]} and {entry.name} have the same token"
                )
            owners[digest] = entry.name
    return entries


def _entry(name: str, table: object, source: str) -> Entry:
    if not isinstance(table, dict):
        raise ConfigError(f"{source}: {_told(name)} stands outside of a table; begin with [NAME]")
    try:
        check_name(name)
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from None
    where = f"{source}: [{name}]"
    for key in table:
        if key not in _KEYS:
            near = difflib.get_close_matches(key, _KEYS, 1)
            raise ConfigError(
                f"{where}: {_told(key)} is not known; "
                + (f"did you mean {near[0]}?" if near else f"known are {', '.join(_KEYS)}")
            )
    read = _Table(where, table)
    devices = read.numbers("devices")
    quota = Quota(
        memory_bytes=read.whole("memory_bytes"),
        contexts=read.whole("contexts"),
        contexts_per_second=read.rate("contexts_per_second"),
        calls_per_second=read.rate("calls_per_second"),
        devices=None if devices is None else frozenset(devices),
        admin=read.flag("admin"),
    )
    return Entry(name, read.digests(), read.moment("expires"), quota, "token" in table)


def _may_be_token(text: object) -> bool:
    """Whether a text, in the wrong place, may be a token: it is not told then."""
    return len(str(text)) >= SHORTEST_TOKEN


def _told(key: str) -> str:
    return "a key" if _may_be_token(key) else repr(key)


class _Table:
    """One name's values, checked as they are read."""

    def __init__(self, where: str, values: Mapping[str, Any]) -> None:
        self._where = where
        self._values = values

    def digests(self) -> tuple[bytes, ...]:
        """Of ``sha256`` and ``token``: each a text or a list of texts."""
        hashes, tokens = self._texts("sha256"), self._texts("token")
        if not hashes and not tokens:
            raise ConfigError(f"{self._where}: there is neither sha256 nor token")
        for given in hashes:
            if not re.fullmatch("[0-9a-f]{64}", given.lower()):
                raise self._wrong("sha256", "64 hexadecimal digits")
        for token in tokens:
            if len(token) < SHORTEST_TOKEN or not re.fullmatch(r"[\x21-\x7e]+", token):
                raise self._wrong(
                    "token", f"{SHORTEST_TOKEN} or more printable ASCII characters without spaces"
                )
        of_tokens = (digest_of(token.encode()) for token in tokens)
        return tuple(dict.fromkeys([*(bytes.fromhex(given) for given in hashes), *of_tokens]))

    def _texts(self, key: str) -> list[str]:
        value = self._values.get(key, [])
        texts = [value] if isinstance(value, str) else value
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise self._wrong(key, "a text, or a list of texts")
        return texts

    def moment(self, key: str) -> float | None:
        """Seconds since 1970 of a date (its beginning) or a date with time; UTC where it names no zone."""
        value = self._values.get(key)
        if value is None:
            return None
        if isinstance(value, datetime):
            moment = value
        elif isinstance(value, date):
            moment = datetime.combine(value, time())
        else:
            raise self._wrong(
                key, "a date such as 2027-01-31 or 2027-01-31T12:00:00Z, without quotes"
            )
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()

    def whole(self, key: str) -> int | None:
        """A whole number from 0."""
        value = self._values.get(key)
        if value is None:
            return None
        if type(value) is not int or not 0 <= value < 2**63:
            raise self._wrong(key, "a whole number of at least 0")
        return value

    def rate(self, key: str) -> float | None:
        """A number above 0."""
        value = self._values.get(key)
        if value is None:
            return None
        if type(value) not in (int, float) or not 0 < value < 1e9:
            raise self._wrong(key, "a number above 0")
        return float(value)

    def numbers(self, key: str) -> list[int] | None:
        """A list of whole numbers from 0."""
        value = self._values.get(key)
        if value is None:
            return None
        if not isinstance(value, list) or not all(type(v) is int and v >= 0 for v in value):
            raise self._wrong(key, "a list of devices such as [0, 1]")
        return value

    def flag(self, key: str) -> bool:
        """True or false."""
        value = self._values.get(key, False)
        if not isinstance(value, bool):
            raise self._wrong(key, "true or false")
        return value

    def _wrong(self, key: str, allowed: str) -> ConfigError:
        value = self._values[key]
        secret = key in ("sha256", "token") or _may_be_token(value)
        is_what = "is wrong" if secret else f"is {value!r}"
        return ConfigError(f"{self._where}: {key} {is_what}; it must be {allowed}")
