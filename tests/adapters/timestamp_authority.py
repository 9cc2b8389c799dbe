"""A timestamp authority: `openssl ts -reply` behind an HTTP server on the loopback.

with TimestampAuthority(tmp_path) as authority:
    reply = fetch(authority.url, text)
    authority.root                       # the file that its root certificate is in
"""

from __future__ import annotations

import subprocess
import threading
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_CONFIG = """
[tsa]
default_tsa = settings
[settings]
serial = {folder}/serial
crypto_device = builtin
signer_cert = {folder}/signer.pem
signer_key = {folder}/signer.key
signer_digest = sha256
default_policy = 1.2.3.4.1
digests = {digests}
accuracy = secs:1
ess_cert_id_alg = sha256
"""

Span = tuple[datetime, datetime]


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _now_and_on() -> Span:
    now = datetime.now(UTC)
    return now - timedelta(days=1), now + timedelta(days=1)


class TimestampAuthority:
    """The authority, which answers while it is entered.

    `valid`: from when to when its own certificate is. `digests`: those that it stamps. `asked` holds the
    queries that came; `replies`, where it is not empty, is answered in place of its own.
    """

    def __init__(self, folder: Path, *, valid: Span | None = None, digests: str = "sha256") -> None:
        folder.mkdir(exist_ok=True)
        self.folder, self.root = folder, folder / "root.pem"
        self.asked: list[bytes] = []
        self.replies: list[bytes] = []
        (folder / "serial").write_text("01\n")
        (folder / "ts.cnf").write_text(_CONFIG.format(folder=folder, digests=digests))
        self._make_certificates(valid or _now_and_on())
        self._one = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}/tsr"

    def stamp(self, query: bytes) -> bytes:
        """The reply to a query, by openssl."""
        with self._one:
            (self.folder / "query").write_bytes(query)
            subprocess.run(
                ["openssl", "ts", "-reply", "-section", "settings", *self._files()],
                check=True,
                capture_output=True,
            )
            return (self.folder / "reply").read_bytes()

    def _files(self) -> list[str]:
        files = {"-config": "ts.cnf", "-queryfile": "query", "-out": "reply"}
        return [
            part for option, name in files.items() for part in (option, f"{self.folder}/{name}")
        ]

    def _make_certificates(self, valid: Span) -> None:
        root_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
        decades = (datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC))
        root = (
            _builder("root", "root", root_key, decades)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(root_key, hashes.SHA256())
        )
        signer = (
            _builder("authority", "root", key, valid)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.TIME_STAMPING]), critical=True
            )
            .sign(root_key, hashes.SHA256())
        )
        self.root.write_bytes(root.public_bytes(Encoding.PEM))
        (self.folder / "signer.pem").write_bytes(signer.public_bytes(Encoding.PEM))
        (self.folder / "signer.key").write_bytes(
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        )

    def __enter__(self) -> TimestampAuthority:
        self._http = _Http(self)
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.01}
        )
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


def _builder(
    subject: str, issuer: str, key: ec.EllipticCurvePrivateKey, valid: Span
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(valid[0])
        .not_valid_after(valid[1])
    )


class _Http(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, owner: TimestampAuthority) -> None:
        self.owner = owner
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: _Http

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""

    def do_POST(self) -> None:
        owner = self.server.owner
        query = self.rfile.read(int(self.headers["Content-Length"]))
        owner.asked.append(query)
        reply = owner.replies.pop(0) if owner.replies else owner.stamp(query)
        self.send_response(200)
        self.send_header("Content-Type", "application/timestamp-reply")
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)
