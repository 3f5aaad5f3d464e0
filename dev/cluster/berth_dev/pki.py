# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who is who in the cluster: its own authorities, certificates, service-account keys and kubeconfigs.

`control_plane`, `kwok`, `cluster` and `hosts` call this. It never starts or asks anything. Everything is made once and
then read again, so that a restart keeps every identity. Keys are ECDSA P-256, PKCS #8, mode 0600.

Three authorities, as a real cluster has them: `ca` (clients and servers of Kubernetes), `etcd-ca` (etcd trusts nobody
but the API server) and `front-proxy-ca` (who may speak for others to aggregated API servers).
"""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import ipaddress
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from .state import write_atomically

# Longer than any development cluster lives; clocks of a suspended machine may be behind.
LIFETIME = dt.timedelta(days=730)
BACKDATE = dt.timedelta(hours=1)


@dataclass(frozen=True)
class Pair:
    """The files of a certificate (PEM) and its private key."""

    cert: Path
    key: Path


class Pki:
    """The identities of one cluster, kept in a folder (made 0700). Not safe to use from two threads for one name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    @property
    def ca_cert(self) -> Path:
        """The certificate against which every server and client of the cluster is verified."""
        return self.authority("ca").cert

    def authority(self, name: str) -> Pair:
        """A certificate authority: `ca`, `etcd-ca` or `front-proxy-ca`."""
        pair = self._pair(name)
        if not pair.cert.exists():
            key = _write_key(pair.key)
            subject = _name(f"berth-dev {name}", ())
            _write_cert(pair.cert, _builder(subject, key, ca=True, issuer=subject).sign(key, hashes.SHA256()))
        return pair

    def client(self, cn: str, groups: Sequence[str] = (), *, authority: str = "ca") -> Pair:
        """A client certificate: user `cn` in `groups`, as Kubernetes reads the subject's CN and O."""
        pair = self._pair(_file_name("client", cn, groups, authority))
        if not pair.cert.exists():
            key = _write_key(pair.key)
            usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
            self._sign(pair.cert, _builder(_name(cn, groups), key).add_extension(usage, False), authority)
        return pair

    def server(self, cn: str, dns: Iterable[str], ips: Iterable[str], *, authority: str = "ca") -> Pair:
        """A serving certificate for these names and addresses; made anew when it does not cover them all.

        It may also be used as a client: kubelet and etcd present the one that they serve with.
        """
        pair = self._pair(_file_name("server", cn, (), authority))
        wanted = {*dns, *ips}
        if not pair.cert.exists() or not wanted <= _covered(pair.cert):
            names: list[x509.GeneralName] = [x509.DNSName(name) for name in dns]
            names += [x509.IPAddress(ipaddress.ip_address(ip)) for ip in ips]
            key = _write_key(pair.key)
            builder = _builder(_name(cn, ()), key).add_extension(x509.SubjectAlternativeName(names), False)
            usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
            self._sign(pair.cert, builder.add_extension(usage, False), authority)
        return pair

    def service_account_keys(self) -> Pair:
        """The key that signs service account tokens; `cert` is its public half, a PEM public key."""
        pair = Pair(self.folder / "service-account.pub", self.folder / "service-account.key")
        if not pair.cert.exists():
            key = _write_key(pair.key)
            public = key.public_key().public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
            write_atomically(pair.cert, public.decode(), 0o644)
        return pair

    def kubeconfig(self, cn: str, groups: Sequence[str], server_url: str, *, path: Path | None = None) -> Path:
        """A kubeconfig (0600) for that user at that address, with everything in it. Rewritten when the address changes.

        `path`: where to write it; by default beside the certificates.
        """
        pair = self.client(cn, groups)
        target = path or self.folder / f"{_file_name('kubeconfig', cn, (*groups, server_url), 'ca')}.yaml"
        text = yaml.safe_dump(_kubeconfig(cn, server_url, self.ca_cert, pair), sort_keys=False)
        if not target.exists() or target.read_text(encoding="utf-8") != text:
            write_atomically(target, text)
        return target

    def _pair(self, name: str) -> Pair:
        return Pair(self.folder / f"{name}.crt", self.folder / f"{name}.key")

    def _sign(self, target: Path, builder: x509.CertificateBuilder, authority: str) -> None:
        """Sign with that authority and write the certificate: last, so that its presence says that all is there."""
        issuer = self.authority(authority)
        key = serialization.load_pem_private_key(issuer.key.read_bytes(), password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise TypeError(f"{issuer.key}: expected an elliptic curve key")
        cert = x509.load_pem_x509_certificate(issuer.cert.read_bytes())
        identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())
        signed = builder.issuer_name(cert.subject).add_extension(identifier, False).sign(key, hashes.SHA256())
        _write_cert(target, signed)


def _file_name(role: str, cn: str, parts: Sequence[str], authority: str) -> str:
    """A file name that is readable and yet different for every identity."""
    digest = hashlib.sha256("\0".join((role, cn, authority, *parts)).encode()).hexdigest()[:8]
    return f"{role}-{re.sub(r'[^A-Za-z0-9.-]+', '_', cn)[:80]}-{digest}"


def _name(cn: str, groups: Sequence[str]) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, cn)])


def _builder(
    subject: x509.Name, key: ec.EllipticCurvePrivateKey, *, ca: bool = False, issuer: x509.Name | None = None
) -> x509.CertificateBuilder:
    """What all the cluster's certificates have in common."""
    now = dt.datetime.now(dt.UTC)
    usage = x509.KeyUsage(True, False, False, False, False, ca, ca, False, False)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATE)
        .not_valid_after(now + LIFETIME)
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return builder.issuer_name(issuer) if issuer is not None else builder


def _covered(cert: Path) -> set[str]:
    """The names and addresses of a serving certificate."""
    loaded = x509.load_pem_x509_certificate(cert.read_bytes())
    names = loaded.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {*names.get_values_for_type(x509.DNSName), *(str(ip) for ip in names.get_values_for_type(x509.IPAddress))}


def _write_key(path: Path) -> ec.EllipticCurvePrivateKey:
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    write_atomically(path, pem.decode(), 0o600)
    return key


def _write_cert(path: Path, cert: x509.Certificate) -> None:
    write_atomically(path, cert.public_bytes(serialization.Encoding.PEM).decode(), 0o644)


def _kubeconfig(cn: str, server_url: str, ca: Path, pair: Pair) -> dict[str, object]:
    def inline(path: Path) -> str:
        return base64.b64encode(path.read_bytes()).decode()

    user = {"client-certificate-data": inline(pair.cert), "client-key-data": inline(pair.key)}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "berth-dev",
        "clusters": [
            {"name": "berth-dev", "cluster": {"server": server_url, "certificate-authority-data": inline(ca)}}
        ],
        "users": [{"name": cn, "user": user}],
        "contexts": [{"name": "berth-dev", "context": {"cluster": "berth-dev", "user": cn}}],
    }
