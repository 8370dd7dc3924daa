"""The file of the tokens: what it may say, and that what is wrong in it is told without a secret."""

from __future__ import annotations

import contextlib
import hashlib
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aclnn_server.access.token_file import (
    PREFIX,
    SHORTEST_TOKEN,
    Entry,
    make_token,
    parse,
    write_entry,
)
from aclnn_server.config import ConfigError
from aclnn_server.sessions.tenants import Quota

TOKEN = "a-token-of-some-length-1234567890"
HASH = hashlib.sha256(TOKEN.encode()).hexdigest()


def only(text: str) -> Entry:
    (entry,) = parse(text.encode(), "tokens.toml")
    return entry


def test_a_name_with_a_hash_and_nothing_else() -> None:
    entry = only(f'[alice]\nsha256 = "{HASH}"')
    assert entry == Entry("alice", (bytes.fromhex(HASH),), None, Quota(), plain=False)


def test_everything_that_a_name_may_have() -> None:
    entry = only(
        f"""
        [batch-jobs_2]
        sha256 = ["{HASH.upper()}", "{"0" * 64}"]
        expires = 2027-01-31T12:00:00+01:00
        memory_bytes = 8_589_934_592
        contexts = 4
        contexts_per_second = 2
        calls_per_second = 0.5
        devices = [3, 0]
        admin = true
        """
    )
    assert entry.digests == (bytes.fromhex(HASH), bytes(32))
    assert entry.expires == datetime(2027, 1, 31, 11, tzinfo=UTC).timestamp()
    assert entry.quota == Quota(2**33, 4, 2.0, 0.5, frozenset({0, 3}), admin=True)


@pytest.mark.parametrize(
    ("written", "moment"),
    [
        ("2027-01-31", datetime(2027, 1, 31, tzinfo=UTC)),
        ("2027-01-31T06:00:00", datetime(2027, 1, 31, 6, tzinfo=UTC)),
        ("2027-01-31T06:00:00Z", datetime(2027, 1, 31, 6, tzinfo=UTC)),
    ],
)
def test_a_moment_without_a_zone_is_utc(written: str, moment: datetime) -> None:
    assert only(f'[a]\nsha256="{HASH}"\nexpires={written}').expires == moment.timestamp()


def test_a_token_in_plain_is_known_by_its_hash() -> None:
    entry = only(f'[alice]\ntoken = "{TOKEN}"')
    assert (entry.digests, entry.plain) == ((bytes.fromhex(HASH),), True)


WRONG = {
    "": "there is no token in it; aclnn-serve token NAME makes one",
    "# only a comment": "there is no token in it",
    'sha256 = "x"': "'sha256' stands outside of a table; begin with [NAME]",
    "[alice]": "[alice]: there is neither sha256 nor token",
    "[alice": "it is no TOML",
    f'[alice]\nsha256 = "{HASH[1:]}"': "[alice]: sha256 is wrong; it must be 64 hexadecimal digits",
    f'[alice]\nsha256 = "{HASH[1:]}g"': "[alice]: sha256 is wrong",
    "[alice]\nsha256 = 7": "[alice]: sha256 is wrong; it must be a text, or a list of texts",
    f'[alice]\nsha256 = ["{HASH}", 7]': "[alice]: sha256 is wrong",
    f'[alice]\ntoken = "{TOKEN[: SHORTEST_TOKEN - 1]}"': "token is wrong; it must be 20 or more",
    f'[alice]\ntoken = "{TOKEN} {TOKEN}"': "[alice]: token is wrong",
    f'[alice]\ntoken = "{TOKEN}é"': "[alice]: token is wrong",
    f'["al ice"]\nsha256 = "{HASH}"': "'al ice' is no name",
    f'["{"a" * 65}"]\nsha256 = "{HASH}"': "is no name: 1 to 64 of",
    f'[team.alice]\nsha256 = "{HASH}"': "[team]: 'alice' is not known",
    f'[a]\nsha256 = "{HASH}"\nmemory_byte = 1': "'memory_byte' is not known; did you mean memory_bytes?",
    f'[a]\nsha256 = "{HASH}"\nqqq = 1': "'qqq' is not known; known are sha256, token, expires",
    f'[a]\nsha256 = "{HASH}"\ncontexts = -1': "contexts is -1; it must be a whole number of at least 0",
    f'[a]\nsha256 = "{HASH}"\ncontexts = true': "contexts is True; it must be a whole number",
    f'[a]\nsha256 = "{HASH}"\ncontexts = 1.5': "contexts is 1.5; it must be a whole number",
    f'[a]\nsha256 = "{HASH}"\nmemory_bytes = "8GiB"': "memory_bytes is '8GiB'; it must be a whole",
    f'[a]\nsha256 = "{HASH}"\ncalls_per_second = 0': "calls_per_second is 0; it must be a number above",
    f'[a]\nsha256 = "{HASH}"\ncalls_per_second = nan': "calls_per_second is nan",
    f'[a]\nsha256 = "{HASH}"\ncontexts_per_second = inf': "contexts_per_second is inf",
    f'[a]\nsha256 = "{HASH}"\ndevices = 0': "devices is 0; it must be a list of devices such as",
    f'[a]\nsha256 = "{HASH}"\ndevices = [-1]': "devices is [-1]",
    f'[a]\nsha256 = "{HASH}"\nadmin = 1': "admin is 1; it must be true or false",
    f'[a]\nsha256 = "{HASH}"\nexpires = "2027-01-31"': "it must be a date such as 2027-01-31",
    f'[a]\nsha256 = "{HASH}"\n[b]\ntoken = "{TOKEN}"': "a and b have the same token",
}


@pytest.mark.parametrize("text", WRONG, ids=list(WRONG.values()))
def test_what_cannot_be_is_told(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(text.encode(), "tokens.toml")
    told = str(caught.value)
    assert told.startswith("tokens.toml: ")
    assert WRONG[text] in told


@pytest.mark.parametrize(
    "text",
    [
        f'[alice]\ntoken = "{TOKEN}" x',
        f"[alice]\ntoken = {TOKEN}",
        f'[alice]\ntoken = "{TOKEN}\n',
        f'[alice]\ntoken = "{TOKEN}"\ntoken = "{TOKEN}"',
        f'[alice]\ntoken = ["{TOKEN}", 3]',
        f'[alice]\ntoken = {{ x = "{TOKEN}" }}',
        f'[alice]\ntoken = "{TOKEN} x"',
        f'[alice]\nexpires = "{TOKEN}"',
        f'[alice]\nsha256 = "{"0" * 64}"\ndevices = ["{TOKEN}"]',
        f'[alice]\nsha256 = "{"0" * 64}"\n{TOKEN} = 1',
        f"{TOKEN} = 1",
        f'[aclnn_{TOKEN}]\nsha256 = "{"0" * 64}"',
        f'[alice]\nsha256 = "{HASH[:-1]}"',
        f'[alice]\nsha256 = "{HASH}"\n[bob]\nsha256 = "{HASH}"',
    ],
)
def test_no_error_tells_a_token_or_a_hash(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(text.encode(), "tokens.toml")
    for secret in (TOKEN, HASH, HASH[:-1]):
        assert secret not in str(caught.value)


def test_what_is_no_text() -> None:
    with pytest.raises(ConfigError, match="no text in UTF-8"):
        parse(b"[alice]\nsha256 = '\xff'", "tokens.toml")


@given(st.binary(max_size=200))
def test_no_content_is_more_than_an_error(content: bytes) -> None:
    with contextlib.suppress(ConfigError):
        parse(content, "tokens.toml")


def test_tokens_are_made_of_256_random_bits() -> None:
    made = {make_token() for _ in range(100)}
    assert len(made) == 100
    assert all(token.startswith(PREFIX) and len(token) == len(PREFIX) + 43 for token in made)


def test_what_is_written_reads_the_same() -> None:
    zone = timezone(timedelta(hours=2))
    settings = {
        "expires": datetime(2027, 1, 31, tzinfo=zone),
        "memory_bytes": 5,
        "contexts": 1,
        "contexts_per_second": 0.5,
        "calls_per_second": 3.0,
        "devices": [0, 2],
        "admin": True,
    }
    entry = only(write_entry("alice", TOKEN, settings))
    assert entry == Entry(
        "alice",
        (bytes.fromhex(HASH),),
        datetime(2027, 1, 30, 22, tzinfo=UTC).timestamp(),
        Quota(5, 1, 0.5, 3.0, frozenset({0, 2}), admin=True),
        plain=False,
    )
    with pytest.raises(ConfigError, match="'a b' is no name"):
        write_entry("a b", TOKEN, {})
    with pytest.raises(ConfigError, match="contexts is -1"):
        write_entry("alice", TOKEN, {"contexts": -1})
