"""The files of TLS: what is put in force, and what is said of files that cannot be."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from aclnn.certificates import why_not_accepted
from aclnn_client import InvalidParameterError, Tls
from aclnn_client.tls import TlsFiles
from aclnn_server.access.certificates import Certificates
from aclnn_server.config import ConfigError, ServerConfig
from tests.access.conftest import HERE
from tests.access.pki import DAY, FOR_CLIENTS, FOR_SERVERS, Authority, Pair


def load(certificate: Path, key: Path, client_ca: Path | None = None) -> Certificates:
    certificates = Certificates(
        ServerConfig(
            tls_certificate=str(certificate),
            tls_key=str(key),
            tls_client_ca=str(client_ca) if client_ca else "",
        )
    )
    certificates.load()
    return certificates


def refusal(certificate: Path, key: Path, client_ca: Path | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        load(certificate, key, client_ca)
    return str(caught.value)


def test_a_pair_and_an_authority(pair: Pair, authority: Authority) -> None:
    assert load(pair.certificate, pair.key).paths == [pair.certificate, pair.key]
    whole = load(pair.certificate, pair.key, authority.certificate)
    assert whole.paths == [pair.certificate, pair.key, authority.certificate]


def test_a_certificate_with_its_chain(pair: Pair, authority: Authority, tmp_path: Path) -> None:
    chain = tmp_path / "chain.pem"
    chain.write_bytes(pair.certificate.read_bytes() + authority.certificate.read_bytes())
    load(chain, pair.key)


def test_a_certificate_for_servers(authority: Authority) -> None:
    pair = authority.issue("for-servers", HERE, usage=FOR_SERVERS)
    load(pair.certificate, pair.key)


def test_files_that_are_no_certificate_and_no_key(
    pair: Pair, authority: Authority, tmp_path: Path
) -> None:
    junk = tmp_path / "junk"
    for content in (b"", b"junk", b"\xff\xfe", b"-----BEGIN CERTIFICATE-----\nAAAA\n"):
        junk.write_bytes(content)
        assert f"tls_certificate {str(junk)!r} and tls_key" in refusal(junk, pair.key)
        assert "are no pair in PEM form: " in refusal(pair.certificate, junk)
        told = refusal(pair.certificate, pair.key, junk)
        assert told == f"tls_client_ca is {str(junk)!r}, which has no certificate in PEM form"
    assert "are no pair in PEM form" in refusal(pair.key, pair.certificate)
    missing = tmp_path / "missing"
    for files, setting in (
        ((missing, pair.key), "tls_certificate"),
        ((pair.certificate, missing), "tls_key"),
        ((pair.certificate, pair.key, missing), "tls_client_ca"),
    ):
        told = refusal(*files)
        assert told == (
            f"{setting} is {str(missing)!r}, which cannot be read: No such file or directory"
        )


def test_a_key_of_another_certificate(pair: Pair, authority: Authority) -> None:
    other = authority.issue("other", HERE)
    assert refusal(pair.certificate, other.key) == (
        f"tls_certificate {str(pair.certificate)!r} and tls_key {str(other.key)!r} are no pair in PEM "
        "form: key values mismatch"
    )


def test_a_key_with_a_password(authority: Authority) -> None:
    locked = authority.issue("locked", HERE, password=b"secret")
    assert "are no pair in PEM form" in refusal(locked.certificate, locked.key)


def test_a_certificate_that_no_client_would_accept(authority: Authority) -> None:
    for file, times, told in (
        ("old", {"begins": -9 * DAY, "ends": -DAY}, "certificate has expired"),
        ("early", {"begins": DAY, "ends": 9 * DAY}, "certificate is not yet valid"),
    ):
        pair = authority.issue(file, HERE, **times)  # type: ignore[arg-type]
        assert refusal(pair.certificate, pair.key) == (
            f"tls_certificate is {str(pair.certificate)!r}, which no client would accept: {told}"
        )
    wrong = authority.issue("for-clients", HERE, usage=FOR_CLIENTS)
    told = refusal(wrong.certificate, wrong.key)
    assert told.endswith("which no client would accept: unsuitable certificate purpose")


def test_no_error_tells_a_key(pair: Pair, authority: Authority) -> None:
    told = refusal(pair.key, pair.key) + refusal(authority.certificate, pair.key)
    for line in pair.key.read_text().splitlines():
        assert line not in told


def test_what_a_client_s_certificate_is_wrong_in(authority: Authority) -> None:
    def why(pair: Pair) -> str:
        return why_not_accepted(
            pair.certificate.read_bytes(), pair.key.read_bytes(), of_server=False
        )

    assert why(authority.issue("alice", ["alice"])) == ""
    assert why(authority.issue("alice", ["alice"], usage=FOR_CLIENTS)) == ""
    old = authority.issue("alice", ["alice"], begins=-9 * DAY, ends=-DAY)
    assert why(old) == "certificate has expired"
    wrong = authority.issue("alice", ["alice"], usage=FOR_SERVERS)
    assert why(wrong) == "unsuitable certificate purpose"
    with pytest.raises(ssl.SSLError):
        why_not_accepted(b"", b"", of_server=False)


# --- the client's files -----------------------------------------------------------------------------


def test_a_client_s_files_are_checked_before_anything_is_sent(
    pair: Pair, authority: Authority, tmp_path: Path
) -> None:
    junk = tmp_path / "junk.pem"
    junk.write_text("junk")
    other = authority.issue("other", HERE)
    for tls, parameter, told in (
        (Tls(root_certificates=junk), "tls.root_certificates", "has no certificate in PEM form"),
        (Tls(certificate=junk, key=pair.key), "tls.key", "are no pair in PEM form"),
        (Tls(certificate=pair.certificate, key=other.key), "tls.key", "key values mismatch"),
        (Tls(certificate=tmp_path, key=pair.key), "tls.certificate", "cannot be read: Is a dir"),
    ):
        with pytest.raises(InvalidParameterError, match=told) as caught:
            TlsFiles(tls)
        assert caught.value.parameter == parameter
    TlsFiles(Tls(authority.certificate, pair.certificate, pair.key))
    TlsFiles(Tls())
