"""Certificates made on the fly: authorities, servers, clients, good ones and expired ones."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAY = timedelta(days=1)
FOR_SERVERS = ExtendedKeyUsageOID.SERVER_AUTH
FOR_CLIENTS = ExtendedKeyUsageOID.CLIENT_AUTH


@dataclass(frozen=True)
class Pair:
    """Files of a certificate and its key, in PEM form."""

    certificate: Path
    key: Path


class Authority:
    """Signs certificates; its own is in `certificate`."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._key = ec.generate_private_key(ec.SECP256R1())
        built = self._builder(self._name, self._key, -DAY, 365 * DAY).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        self.certificate = folder / f"{name}.ca.pem"
        self.certificate.write_bytes(_pem(built.sign(self._key, hashes.SHA256())))

    def _builder(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        begins: timedelta,
        ends: timedelta,
    ) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + begins)
            .not_valid_after(now + ends)
        )

    def issue(
        self,
        file: str,
        names: Sequence[str],
        *,
        common: str = "unused",
        begins: timedelta = -DAY,
        ends: timedelta = DAY,
        usage: x509.ObjectIdentifier | None = None,
        password: bytes | None = None,
    ) -> Pair:
        """Makes a key and a certificate for it.

        Args:
            file: name of the files, without their endings.
            names: host names, addresses, or whatever a client is called.
            common: the subject's common name.
            begins: from now to when it becomes valid.
            ends: from now to when it ends to be.
            usage: what it is for; anything where left out.
            password: of the key's file.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])
        built = self._builder(subject, key, begins, ends)
        if names:
            alternatives = x509.SubjectAlternativeName([_general(name) for name in names])
            built = built.add_extension(alternatives, critical=False)
        if usage is not None:
            built = built.add_extension(x509.ExtendedKeyUsage([usage]), critical=True)
        pair = Pair(self._folder / f"{file}.pem", self._folder / f"{file}.key")
        pair.certificate.write_bytes(_pem(built.sign(self._key, hashes.SHA256())))
        pair.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.BestAvailableEncryption(password)
                if password
                else serialization.NoEncryption(),
            )
        )
        return pair


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
