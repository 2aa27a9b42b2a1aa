"""HTTP: the API and its page, and a second listener for metrics and health alone.

What is served comes through two small protocols (`ports`), so the server knows neither how
sessions are watched nor how metrics are made.
"""

from sidecar.server.app import Options
from sidecar.server.listen import ListenError
from sidecar.server.ports import Ask, Done, Sessions, Vitals
from sidecar.server.serve import Server

__all__ = ["Ask", "Done", "ListenError", "Options", "Server", "Sessions", "Vitals"]
