"""Certificates for tests: of a stranger's authority, and of a development cluster's own."""

from __future__ import annotations

import base64
import datetime as dt
import ipaddress
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def inline(content: bytes) -> str:
    """As a kubeconfig has it."""
    return base64.b64encode(content).decode()


def authority(*addresses: str) -> tuple[ec.EllipticCurvePrivateKey, bytes]:
    """A key and its own certificate (PEM), known to nobody; it serves 127.0.0.1, localhost and the addresses."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "somebody else")])
    return key, _signed(name, key.public_key(), name, key, expired=False, serves=("127.0.0.1", *addresses))


def certificate_of(
    control_plane: Any, cn: str, groups: Sequence[str] = (), *, expired: bool = False
) -> tuple[bytes, bytes]:
    """Key and certificate (PEM) of a user, signed by the cluster's own authority."""
    ca = x509.load_pem_x509_certificate(Path(control_plane.ca_cert).read_bytes())
    signer = serialization.load_pem_private_key(Path(control_plane.ca_cert).with_suffix(".key").read_bytes(), None)
    key = ec.generate_private_key(ec.SECP256R1())
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    subject = x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, cn)])
    return pem(key), _signed(subject, key.public_key(), ca.subject, signer, expired=expired)


def pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """The key as a file has it."""
    encoding = serialization.Encoding.PEM
    return key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def _signed(subject: Any, public: Any, issuer: Any, key: Any, *, expired: bool, serves: Sequence[str] = ()) -> bytes:
    now = dt.datetime.now(dt.UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(public)
    builder = builder.serial_number(x509.random_serial_number()).not_valid_before(now - dt.timedelta(days=2))
    builder = builder.not_valid_after(now - dt.timedelta(days=1) if expired else now + dt.timedelta(days=1))
    if serves:
        names = [x509.DNSName("localhost"), *(x509.IPAddress(ipaddress.ip_address(one)) for one in serves)]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
