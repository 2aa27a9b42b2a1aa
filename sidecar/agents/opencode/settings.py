"""What an OpenCode server needs to be told: where it is, and how it is asked."""

from __future__ import annotations

from msgspec import Struct

from sidecar.config_units import FilePath, Seconds, Url


class Settings(Struct, frozen=True, kw_only=True):
    """Where the server is, and how it is asked."""

    url: Url
    """Where `opencode serve` listens, usually `http://127.0.0.1:4096`. Required: a server of
    somebody else's is not to be asked unbidden."""

    username: str = "opencode"
    """The user that the server expects beside the password: its OPENCODE_SERVER_USERNAME."""

    password_file: FilePath | None = None
    """A file with the server's OPENCODE_SERVER_PASSWORD, read at every request. Off: none is sent."""

    directories: tuple[FilePath, ...] = ()
    """Only the sessions of these working directories are watched. Empty: those of all."""

    every: Seconds = 5.0
    """Seconds between two polls of what is busy and of what waits. 5s: the event stream tells both
    at once, the poll only finds what the stream lost."""

    timeout: Seconds = 5.0
    """How long one request may take. 5s: a server answers within milliseconds, and the look before
    an act takes several requests."""

    stream_timeout: Seconds = 35.0
    """Silence after which the event stream counts as dead. 35s: the server sends a heartbeat every
    10 s, and three may be lost."""

    ca_file: FilePath | None = None
    """Certificates that an https server is checked against. Off: the system's."""

    client_cert_file: FilePath | None = None
    """A client certificate in PEM, its key in the same file or in `client_key_file`. Off: none."""

    client_key_file: FilePath | None = None
    """The key of the client certificate. Off: it is in the certificate's file."""

    delete: bool = False
    """Whether a reaped session is deleted. False: it is archived, which keeps its history."""

    def __post_init__(self) -> None:
        """A key alone proves nothing."""
        if self.client_key_file is not None and self.client_cert_file is None:
            raise ValueError("client_key_file needs client_cert_file")
