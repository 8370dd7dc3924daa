"""The commands: one that makes tokens, and those that reach a protected server."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from aclnn_client import connect
from aclnn_server.access.token_file import PREFIX, parse
from aclnn_server.cli import main
from aclnn_server.cli.exits import Exit
from aclnn_server.server import Server
from tests.access.conftest import Start, TokenFile
from tests.access.pki import Authority, Pair
from tests.cli.running import Answer, Command


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs ``aclnn-serve`` with the given arguments."""

    def run(*arguments: object) -> Answer:
        code = main([str(argument) for argument in arguments])
        return Answer(code, *capsys.readouterr())

    return run


Refusal = Callable[..., str]


@pytest.fixture
def refusal(command: Command) -> Refusal:
    """Runs a command that is to be refused with code 2; gives its one line, without the beginning."""

    def run(*arguments: object, code: int = Exit.USAGE) -> str:
        answer = command(*arguments)
        assert (answer.code, answer.out) == (code, "")
        assert answer.err.count("\n") == 1
        return answer.err.removeprefix("aclnn-serve: ").rstrip("\n")

    return run


# --- token ------------------------------------------------------------------------------------------


def test_a_token_and_its_lines_are_printed(command: Command) -> None:
    answer = command(
        *("token", "alice", "--expires", "2027-01-31", "--memory-bytes", 5, "--contexts", 2),
        *("--contexts-per-second", 1.5, "--calls-per-second", 3, "--devices", "0,2", "--admin"),
    )
    assert (answer.code, answer.err) == (0, "")
    token = answer.lines[1]
    assert token.startswith(PREFIX)
    assert answer.lines[3] == "lines for the server's file:"
    (entry,) = parse("\n".join(answer.lines[4:]).encode(), "output")
    assert (entry.name, entry.quota.admin) == ("alice", True)
    assert entry.quota.devices == frozenset({0, 2})
    assert (entry.quota.memory_bytes, entry.quota.contexts) == (5, 2)
    assert (entry.quota.contexts_per_second, entry.quota.calls_per_second) == (1.5, 3.0)
    assert token not in "\n".join(answer.lines[3:])


def test_a_token_is_put_into_a_file_that_its_user_alone_may_read(
    command: Command, tmp_path: Path, start: Start
) -> None:
    path = tmp_path / "tokens.toml"
    alice = command("token", "alice", "--file", path)
    assert (alice.code, alice.err, len(alice.lines)) == (0, "", 1)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_bytes(path.read_bytes().rstrip(b"\n"))  # as some editors leave it
    bob = command("token", "bob", "--file", path, "--contexts", 1)
    assert [entry.name for entry in parse(path.read_bytes(), "")] == ["alice", "bob"]
    assert alice.lines[0] not in path.read_text()
    server = start(tokens=path)
    for answer in (alice, bob):
        connect(server.address, token=answer.lines[0]).close()


def test_what_makes_no_token(refusal: Refusal, tmp_path: Path) -> None:
    path = tmp_path / "tokens.toml"
    path.write_text('[alice]\ntoken = "some-token-0123456789"\n')
    before = path.read_bytes()
    assert refusal("token", "alice", "--file", path) == f"{path} has a token of alice already"
    assert "'a b' is no name" in refusal("token", "a b", "--file", path)
    assert "contexts is -1" in refusal("token", "bob", "--contexts", "-1", "--file", path)
    assert "--expires: it is 'soon'" in refusal("token", "bob", "--expires", "soon")
    assert "--devices: it is '0;1'" in refusal("token", "bob", "--devices", "0;1")
    assert path.read_bytes() == before
    path.write_text("[alice\n")
    assert refusal("token", "bob", "--file", path).startswith(f"{path}: it is no TOML")
    assert path.read_text() == "[alice\n"
    missing = tmp_path / "no" / "file"
    told = refusal("token", "bob", "--file", missing, code=Exit.NO)
    assert told == f"{missing}: No such file or directory"


# --- commands that connect --------------------------------------------------------------------------


@pytest.fixture
def guarded(
    start: Start, pair: Pair, authority: Authority, tokens: TokenFile, tmp_path: Path
) -> Server:
    """A server with all there is: TLS, clients' certificates, tokens."""
    (tmp_path / "token").write_text(tokens.put("alice") + "\n")
    return start(
        tls_certificate=pair.certificate,
        tls_key=pair.key,
        tls_client_ca=authority.certificate,
        tokens=tokens.path,
    )


@pytest.fixture
def flags(authority: Authority, tmp_path: Path) -> list[object]:
    """What a command says to be let in."""
    own = authority.issue("command", ["command"])
    return [
        *("--tls-ca", authority.certificate, "--tls-certificate", own.certificate),
        *("--tls-key", own.key, "--token-file", tmp_path / "token"),
    ]


def commands(address: str) -> dict[str, tuple[object, ...]]:
    """Each command that connects, so that it needs as little of an operator as there is."""
    plus = ("aclnnPlus", "self=[1,2]", "other=3", "out=empty:2")
    return {
        "info": ("info", address),
        "ops": ("ops", "--address", address),
        "ops of one": ("ops", "aclnnPlus", "--address", address),
        "call": ("call", *plus, "--address", address),
        "diff": ("diff", address, address, *plus),
        "stubs": ("stubs", address, "aclnnPlus"),
        "health": ("health", address),
    }


@pytest.mark.parametrize("name", commands(""))
def test_every_command_reaches_a_protected_server(
    name: str, guarded: Server, flags: list[object], command: Command
) -> None:
    answer = command(*commands(guarded.address)[name], *flags)
    assert (answer.code, answer.err) == (0, "")


@pytest.mark.parametrize("name", commands(""))
def test_every_command_says_what_it_lacks(
    name: str, guarded: Server, flags: list[object], refusal: Refusal
) -> None:
    words = commands(guarded.address)[name]
    health = name == "health"
    told = refusal(*words, code=Exit.NO if health else Exit.NO_ANSWER)
    assert "the server speaks TLS, and the client does not" in told
    assert "asks for a certificate of the client" in refusal(*words, *flags[:2], code=Exit.NO)
    if not health:
        assert "this server asks for a token" in refusal(*words, *flags[:6], code=Exit.NO)


def test_what_bench_takes(guarded: Server, flags: list[object], refusal: Refusal) -> None:
    assert "asks for a token" in refusal("bench", guarded.address, *flags[:6], code=Exit.NO)


def test_a_certificate_of_another_name(
    start: Start, authority: Authority, command: Command, refusal: Refusal
) -> None:
    other = authority.issue("other", ["npu-1.example.org"])
    server = start(tls_certificate=other.certificate, tls_key=other.key)
    words = ("health", server.address, "--tls-ca", authority.certificate)
    told = refusal(*words, code=Exit.NO)
    assert told.endswith("the server's certificate is of another host")
    assert command(*words, "--tls-server-name", "npu-1.example.org").out == "SERVING\n"


def test_the_token_may_come_by_the_environment(
    start: Start,
    tokens: TokenFile,
    command: Command,
    refusal: Refusal,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    alice, bob = tokens.put("alice"), tokens.put("bob", devices=[1])
    address = start(tokens=tokens.path).address

    def devices(*more: object) -> int:
        return len(json.loads(command("info", address, "--json", *more).out)["devices"])

    (tmp_path / "bob").write_text(bob)
    monkeypatch.setenv("ACLNN_SERVE_TOKEN_FILE", str(tmp_path / "bob"))
    assert devices() == 1
    monkeypatch.setenv("ACLNN_SERVE_TOKEN", alice)
    assert devices() == 4
    assert devices("--token-file", tmp_path / "bob") == 1
    assert devices("--token", bob) == 1
    monkeypatch.delenv("ACLNN_SERVE_TOKEN")
    monkeypatch.setenv("ACLNN_SERVE_TOKEN_FILE", str(tmp_path / "nothing"))
    assert "cannot be read: No such file" in refusal("info", address)


def test_the_authority_may_come_by_the_environment(
    start: Start,
    pair: Pair,
    authority: Authority,
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = start(tls_certificate=pair.certificate, tls_key=pair.key)
    monkeypatch.setenv("ACLNN_SERVE_TLS_CA", str(authority.certificate))
    assert command("health", server.address).out == "SERVING\n"


def test_flags_that_contradict_each_other_or_cannot_be(
    refusal: Refusal, pair: Pair, tmp_path: Path
) -> None:
    for flags, told in (
        (("--token", "x", "--token-file", "y"), "--token and --token-file exclude each other"),
        (("--token", "two words"), "token is empty or has other than printable ASCII"),
        (("--token-file", tmp_path / "no"), "cannot be read: No such file or directory"),
        (("--tls-key", pair.key), "--tls-certificate and --tls-key go together"),
        (("--no-tls", "--tls-ca", "x"), "--no-tls goes with no other flag of TLS"),
        (("--tls-ca", tmp_path / "no"), "tls.root_certificates is "),
    ):
        assert told in refusal("info", "127.0.0.1:1", *flags)
    told = refusal("info", "npu-1.example.org:1", "--token", "a-token-of-some-length")
    assert "without TLS, for whoever is on the way to read" in told
    assert "a-token" not in told


# --- the own server's health ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["npu.example.org", "192.0.2.7"])
def test_the_own_server_is_known_by_its_very_certificate(
    command: Command, start: Start, authority: Authority, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    pair = authority.issue("own", [name])
    server = start(tls_certificate=str(pair.certificate), tls_key=str(pair.key))
    port = server.address.rpartition(":")[2]
    monkeypatch.setenv("ACLNN_SERVE_LISTEN", f"0.0.0.0:{port}")
    monkeypatch.setenv("ACLNN_SERVE_TLS_CERTIFICATE", str(pair.certificate))
    assert command("health") == Answer(Exit.DONE, "SERVING\n", "")
    assert command("health", "--service", "liveness").code == Exit.DONE


def test_another_server_in_its_place_is_not_taken_for_the_own_one(
    refusal: Refusal, start: Start, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, own = authority.issue("other", ["localhost"]), authority.issue("own", ["localhost"])
    secured = start(tls_certificate=str(other.certificate), tls_key=str(other.key))
    plain = start()
    monkeypatch.setenv("ACLNN_SERVE_TLS_CERTIFICATE", str(own.certificate))
    for server in (secured, plain):
        monkeypatch.setenv("ACLNN_SERVE_LISTEN", server.address)
        told = refusal("health", code=Exit.NO)
        assert told.startswith(f"{server.address}: ")
    monkeypatch.setenv("ACLNN_SERVE_LISTEN", "127.0.0.1:1")
    assert refusal("health", code=Exit.NO) == "127.0.0.1:1: Connection refused"
    monkeypatch.setenv("ACLNN_SERVE_TLS_CERTIFICATE", "/nowhere.pem")
    assert refusal("health", code=Exit.NO) == (
        "ACLNN_SERVE_TLS_CERTIFICATE is '/nowhere.pem': No such file or directory"
    )
