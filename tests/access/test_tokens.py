"""Tokens: who is let in, who not any more, and what becomes of those that were in."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from aclnn.errors import UnauthenticatedError
from aclnn_server.access.tokens import LEAVING_SECONDS, Tokens
from aclnn_server.config import ConfigError
from aclnn_server.sessions.tenants import Caller, Quota, Tenant
from tests.access.conftest import TokenFile

EXPIRY = datetime(2027, 1, 31, tzinfo=UTC)


class Book:
    """Tokens of a file, with a clock that the test moves."""

    def __init__(self, file: TokenFile) -> None:
        self.now = EXPIRY.timestamp() - 10
        self.evicted: list[str] = []
        self.monotonic = 0.0
        self.tokens = Tokens(
            str(file.path), self._evict, now=lambda: self.now, clock=lambda: self.monotonic
        )
        self.tokens.load()

    def _evict(self, tenant: Tenant) -> int:
        self.evicted.append(tenant.name)
        return 1

    def admit(self, token: str) -> Caller:
        return self.tokens.admit([f"Bearer {token}"])


Open = Callable[[], Book]


@pytest.fixture
def book(tokens: TokenFile) -> Open:
    return lambda: Book(tokens)


def refusal(act: Callable[[], object]) -> str:
    with pytest.raises(UnauthenticatedError) as caught:
        act()
    assert (caught.value.code, caught.value.status) == (207006, 16)
    return caught.value.message


def test_each_token_is_its_tenant_s(tokens: TokenFile, book: Open) -> None:
    alice = tokens.put("alice", contexts=3)
    bob = tokens.put("bob")
    opened = book()
    assert opened.admit(alice).tenant.name == "alice"
    assert opened.admit(alice).tenant.quota == Quota(contexts=3)
    assert opened.admit(alice) is opened.admit(alice)
    assert opened.admit(bob).tenant.name == "bob"


@pytest.mark.parametrize(
    ("authorization", "told"),
    [
        ([], "this server asks for a token, and the call brought none"),
        (["Bearer "], 'must be once "Bearer TOKEN"'),
        (["Bearer"], 'must be once "Bearer TOKEN"'),
        (["Basic YWxpY2U6YWxpY2U="], 'must be once "Bearer TOKEN"'),
        (["<alice>"], 'must be once "Bearer TOKEN"'),
        (["Bearer <alice>", "Bearer <alice>"], 'must be once "Bearer TOKEN"'),
        (["Bearer <alice>x"], "the token is not one of this server's"),
        (["Bearer <alice> x"], "the token is not one of this server's"),
        (["Bearer alice"], "the token is not one of this server's"),
        (["Bearer \u00e9"], "the token is not one of this server's"),
        ([b"Bearer \xff\x00"], "the token is not one of this server's"),
        ([f"Bearer {'x' * 8000}"], "the token is not one of this server's"),
    ],
)
def test_who_is_not_let_in(
    tokens: TokenFile, book: Open, authorization: list[str | bytes], told: str
) -> None:
    alice = tokens.put("alice")
    given = [v.replace("<alice>", alice) if isinstance(v, str) else v for v in authorization]
    opened = book()
    message = refusal(lambda: opened.tokens.admit(given))
    assert told in message
    assert alice not in message


@pytest.mark.parametrize("scheme", ["Bearer ", "bearer ", "BEARER   "])
def test_the_scheme_s_letters_may_be_small_or_large(
    tokens: TokenFile, book: Open, scheme: str
) -> None:
    alice = tokens.put("alice")
    opened = book()
    for given in (scheme + alice, (scheme + alice).encode()):
        assert opened.tokens.admit([given]).tenant.name == "alice"


def test_the_hash_of_a_token_is_no_token(tokens: TokenFile, book: Open) -> None:
    tokens.put("alice")
    text = tokens.path.read_text()
    digest = text.split('"')[1]
    opened = book()
    assert "not one of this server's" in refusal(lambda: opened.admit(digest))


def test_a_token_that_expires(
    tokens: TokenFile, book: Open, caplog: pytest.LogCaptureFixture
) -> None:
    alice, bob = tokens.put("alice", expires=EXPIRY), tokens.put("bob")
    opened = book()
    caller = opened.admit(alice)
    opened.now += 9.9
    opened.tokens.pass_time()
    assert opened.admit(alice) is caller
    assert not caller.ended_because
    opened.now += 0.1
    told = "the token 'alice' expired at 2027-01-31T00:00:00Z"
    assert refusal(lambda: opened.admit(alice)) == told  # also before anybody has looked
    with caplog.at_level(logging.INFO):
        opened.tokens.pass_time()
        opened.tokens.pass_time()
    assert (caller.ended_because, caller.tenant.ended_because) == (told, told)
    assert opened.evicted == ["alice"]
    assert caplog.messages == [f"{told}; 1 contexts ended with it"]
    assert opened.admit(bob).tenant.name == "bob"

    tokens.put("alice")  # without an end
    opened.tokens.load()
    assert opened.admit(alice) is caller
    assert (caller.ended_because, caller.tenant.ended_because) == ("", "")


def test_a_token_that_has_expired_before_it_is_known(
    tokens: TokenFile, book: Open, caplog: pytest.LogCaptureFixture
) -> None:
    alice = tokens.put("alice", expires=datetime(2020, 1, 1, tzinfo=UTC))
    opened = book()
    told = "the token 'alice' expired at 2020-01-01T00:00:00Z"
    assert caplog.messages == [told]
    assert refusal(lambda: opened.admit(alice)) == told
    opened.tokens.pass_time()
    assert opened.evicted == []
    tokens.put("alice")
    opened.tokens.load()
    assert not opened.admit(alice).tenant.ended_because


def test_open_calls_are_broken_off_once_their_clients_could_have_been_told(
    tokens: TokenFile, book: Open
) -> None:
    alice, bob = tokens.put("alice", expires=EXPIRY), tokens.put("bob")
    opened = book()
    broken: list[str] = []
    with (
        opened.admit(alice).keeping_open(lambda: broken.append("alice")),
        opened.admit(bob).keeping_open(lambda: broken.append("bob")),
    ):
        with opened.admit(alice).keeping_open(lambda: broken.append("a call that has ended")):
            pass
        opened.now += 11
        opened.tokens.pass_time()
        opened.monotonic += LEAVING_SECONDS
        opened.tokens.pass_time()
        assert broken == []
        opened.monotonic += 0.1
        for _ in range(3):
            opened.tokens.pass_time()
        assert broken == ["alice"]

        tokens.take_out("bob")
        opened.tokens.load()
        tokens.put("alice")  # it is good again
        opened.tokens.load()
        opened.monotonic += LEAVING_SECONDS + 0.1
        for _ in range(3):
            opened.tokens.pass_time()
        assert broken == ["alice", "bob"]


def test_a_token_that_is_good_again_breaks_nothing_off(tokens: TokenFile, book: Open) -> None:
    alice = tokens.put("alice", expires=EXPIRY)
    opened = book()
    broken: list[str] = []
    with opened.admit(alice).keeping_open(lambda: broken.append("alice")):
        opened.now += 11
        opened.tokens.pass_time()
        tokens.put("alice")
        opened.tokens.load()
        opened.monotonic += LEAVING_SECONDS + 0.1
        opened.tokens.pass_time()
    assert broken == []


def test_who_is_taken_out_is_out(tokens: TokenFile, book: Open) -> None:
    alice, bob = tokens.put("alice"), tokens.put("bob")
    opened = book()
    caller, other = opened.admit(alice), opened.admit(bob)
    tokens.take_out("alice")
    opened.tokens.load()
    assert "not one of this server's" in refusal(lambda: opened.admit(alice))
    assert caller.ended_because == caller.tenant.ended_because == "the token was withdrawn"
    assert opened.evicted == ["alice"]
    assert opened.admit(bob) is other
    assert not other.ended_because

    again = tokens.put("alice")
    opened.tokens.load()
    newcomer = opened.admit(again)
    assert newcomer.tenant is caller.tenant
    assert not newcomer.tenant.ended_because
    assert caller.ended_because  # the token that was withdrawn stays so


def test_a_token_that_takes_another_s_place_keeps_the_contexts(
    tokens: TokenFile, book: Open
) -> None:
    old = tokens.put("alice")
    opened = book()
    before = opened.admit(old)
    new = tokens.replace("alice")
    opened.tokens.load()
    assert opened.admit(new).tenant is before.tenant
    assert "not one of this server's" in refusal(lambda: opened.admit(old))
    assert before.ended_because == "the token was withdrawn"  # who has a call open with it
    assert opened.evicted == []
    assert not before.tenant.ended_because


def test_two_tokens_of_one_name_for_as_long_as_both_are_there(
    tokens: TokenFile, book: Open
) -> None:
    old = tokens.put("alice")
    digest = tokens.path.read_text().split('"')[1]
    new = tokens.replace("alice")
    other = tokens.path.read_text().split('"')[1]
    tokens.path.write_text(f'[alice]\nsha256 = ["{digest}", "{other}"]\n')
    opened = book()
    first, second = opened.admit(old), opened.admit(new)
    assert first.tenant is second.tenant
    tokens.path.write_text(f'[alice]\nsha256 = ["{other}"]\n')
    opened.tokens.load()
    assert (first.ended_because, second.ended_because) == ("the token was withdrawn", "")
    assert opened.evicted == []


def test_a_token_that_goes_to_another_name(tokens: TokenFile, book: Open) -> None:
    token = tokens.put("alice")
    opened = book()
    before = opened.admit(token)
    text = tokens.path.read_text()
    tokens.path.write_text(text.replace("[alice]", "[bob]"))
    opened.tokens.load()
    assert opened.admit(token).tenant.name == "bob"
    assert before.ended_because == "the token was withdrawn"
    assert opened.evicted == ["alice"]


def test_a_quota_that_changes_is_in_force_for_who_is_there(tokens: TokenFile, book: Open) -> None:
    alice = tokens.put("alice", memory_bytes=5)
    opened = book()
    tenant = opened.admit(alice).tenant
    tokens.put("alice", memory_bytes=7, calls_per_second=2.0)
    opened.tokens.load()
    assert opened.admit(alice).tenant is tenant
    assert tenant.quota == Quota(memory_bytes=7, calls_per_second=2.0)
    assert tenant.memory is not None
    assert tenant.memory.limit == 7
    assert tenant.calls is not None


def test_a_file_that_is_wrong_changes_nothing(tokens: TokenFile, book: Open) -> None:
    alice = tokens.put("alice")
    opened = book()
    caller = opened.admit(alice)
    for content in ("", "[alice]", "[bob"):
        tokens.path.write_text(content)
        with pytest.raises(ConfigError):
            opened.tokens.load()
    tokens.path.unlink()
    with pytest.raises(ConfigError, match=r"tokens is .*cannot be read"):
        opened.tokens.load()
    assert opened.admit(alice) is caller
    assert (opened.evicted, caller.ended_because) == ([], "")


def test_a_file_that_others_may_write_is_refused(tokens: TokenFile, book: Open) -> None:
    tokens.put("alice")
    tokens.path.chmod(0o602)
    with pytest.raises(ConfigError, match="everybody may write; chmod o-w it"):
        book()


def test_tokens_in_plain_that_others_may_read_are_warned_of(
    tokens: TokenFile, book: Open, caplog: pytest.LogCaptureFixture
) -> None:
    tokens.put("alice")
    tokens.path.chmod(0o644)
    book()
    assert caplog.messages == []
    tokens.write('[bob]\ntoken = "plain-token-0123456789"')
    tokens.path.chmod(0o640)
    assert book().admit("plain-token-0123456789").tenant.name == "bob"
    assert caplog.messages == []
    tokens.path.chmod(0o644)
    book()
    assert caplog.messages == [f"{tokens.path} has tokens in plain and everybody may read it"]
