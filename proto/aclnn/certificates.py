"""Certificates and keys in PEM form: whether they belong together, and whether anybody could accept them."""

from __future__ import annotations

import os
import ssl

_STEPS = 10
"""Turns that a handshake between two ends in memory takes at most."""


def load_pair(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Gives a context a certificate with its chain, and the key.

    From memory: Python's ssl takes files only, which may have changed since they were read.

    Raises:
        ssl.SSLError: they are not in PEM form, do not belong together, or the key has a password.
    """
    memory = os.memfd_create("pair", os.MFD_CLOEXEC)
    try:
        with os.fdopen(os.dup(memory), "wb") as output:
            output.write(b"\n".join((certificate, key)))
        # gRPC could not ask for a password either.
        context.load_cert_chain(f"/proc/self/fd/{memory}", password=lambda: b"")
    finally:
        os.close(memory)


def load_authorities(context: ssl.SSLContext, authorities: bytes) -> None:
    """Lets a context trust what these certificates sign.

    Raises:
        ssl.SSLError: there is none in PEM form.
    """
    try:
        context.load_verify_locations(cadata=authorities.decode("ascii"))
    except ValueError:
        raise ssl.SSLError(0, "no certificate in PEM form") from None


def why_not_accepted(certificate: bytes, key: bytes, *, of_server: bool) -> str:
    """Why nobody would accept a certificate, whoever signed it: expired, made for something else …

    A handshake in memory finds out, in which the other end trusts this very certificate.

    Args:
        certificate: with its chain, in PEM form.
        key: its key, in PEM form.
        of_server: whether it is a server's; else a client's.

    Returns:
        The reason in words; empty where there is none.

    Raises:
        ssl.SSLError: as of :func:`load_pair`.
    """
    server, client = (
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER),
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
    )
    client.check_hostname = False
    client.verify_mode = ssl.CERT_NONE
    verifier = client if of_server else server
    verifier.verify_mode = ssl.CERT_REQUIRED
    verifier.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    load_authorities(verifier, certificate)
    for context in (server, client):
        load_pair(context, certificate, key)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        client.wrap_bio(to_client, to_server),
        server.wrap_bio(to_server, to_client, server_side=True),
    )
    try:
        for _ in range(_STEPS):
            done = [_step(end) for end in ends]
            if all(done):
                break
    except ssl.SSLError as error:
        return words_of(error)
    return ""


def _step(end: ssl.SSLObject) -> bool:
    """Goes on with a handshake; whether it is done."""
    try:
        end.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True


def words_of(error: ssl.SSLError) -> str:
    """OpenSSL's reason in words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    reason = getattr(error, "reason", None)  # OpenSSL's own errors have one
    return str(reason or error.args[-1]).lower().replace("_", " ")
