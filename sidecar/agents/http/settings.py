"""What a server with a listing needs to be told: where it is, and the templates that describe it."""

from __future__ import annotations

from msgspec import Struct

from sidecar.agents.http.shapes import Call, Capacity, Listing, StatusOf
from sidecar.agents.http.stream import Events
from sidecar.config_units import FilePath, Seconds, Url


class Settings(Struct, frozen=True, kw_only=True):
    """A server and its templates."""

    url: Url
    """Where the server listens. Required."""

    listing: Listing | None = None
    """How its sessions are listed. Off: `ids` and `ids_file` name them."""

    directory: str | None = None
    """What `{directory}` in the listing's path stands for. Off: nothing; some presets need it."""

    ids: tuple[str, ...] = ()
    """Sessions to watch that no listing tells of."""

    ids_file: FilePath | None = None
    """A file that names more of them, one a line, read at every look. Off: there is none."""

    status: StatusOf | None = None
    """What is asked of each session. Off: the listing says all there is."""

    events: Events | None = None
    """What each session streams while it is busy. Off: silence within a turn is not seen."""

    capacity: Capacity | None = None
    """What is asked, once a minute, for the number of sessions there may be. Off: the listing's `limit`
    tells it, or nothing does."""

    last_activity_is_progress: bool = False
    """Whether the last activity moves with work and only then. False: it is a sign of life."""

    leftovers: bool = False
    """Whether entries that are done stay listed until they are closed: they then wait for that,
    under the `waiting` bound. False: what is done is over."""

    interrupt: Call | None = None
    """What ends a turn. Off: nothing can."""

    reap: Call | None = None
    """What ends a session. Off: nothing can."""

    every: Seconds = 5.0
    """How often it is asked. 5s: bounds are minutes, and asking costs the server something."""

    timeout: Seconds = 5.0
    """How long one answer may take, to its last byte. 5s: a listing takes milliseconds."""

    token_file: FilePath | None = None
    """A file with the token, read at every request. Off: none is sent."""

    token_header: str = "Authorization"  # noqa: S105 - a name
    """The header that carries it. Authorization: as a bearer token; any other: as it is."""

    ca_file: FilePath | None = None
    """Certificates that an https server is checked against. Off: the system's."""

    client_cert_file: FilePath | None = None
    """A client certificate in PEM, its key in the same file or in `client_key_file`. Off: none."""

    client_key_file: FilePath | None = None
    """The key of the client certificate. Off: it is in the certificate's file."""

    claude_config_dir: FilePath | None = None
    """Configuration folder of the Claude Code that works behind the server, with `projects/` and
    `sessions/`, as an absolute path. A transcript is a session's whose id is the last part of its
    working directory: then turns are judged too, and the last activity only counts as use. Off:
    the listing says all there is."""

    def __post_init__(self) -> None:
        """What does not fit together would watch nothing, in silence."""
        if self.listing is None and (self.status is None or not (self.ids or self.ids_file)):
            raise ValueError("needs a preset or a listing; or status, with ids or ids_file")
        if self.listing is not None and "{directory}" in self.listing.path and self.directory is None:
            raise ValueError("needs directory, the one whose sessions are listed")
        if self.client_key_file is not None and self.client_cert_file is None:
            raise ValueError("client_key_file needs client_cert_file")
        name = self.token_header
        if not name.isascii() or not name.replace("-", "").replace("_", "").isalnum():
            raise ValueError("token_header is no name of a header")
