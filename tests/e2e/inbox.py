"""A collector inside a sandbox, where nothing of outside can be reached: it keeps each push as a file.

python inbox.py PORT FOLDER
"""

import itertools
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

NUMBERS = itertools.count()


class Keep(BaseHTTPRequestHandler):
    """Writes a push to `FOLDER/SIGNAL-NUMBER`, and answers that it arrived."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        name = f"{self.path.rpartition('/')[2]}-{next(NUMBERS)}"
        part = Path(sys.argv[2], f"{name}.part")
        part.write_bytes(body)
        part.rename(part.with_suffix(""))  # whoever looks finds whole ones only
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Keep).serve_forever()
