"""The metadata server of a machine of Google's, as far as it tells attributes of the instance.

`python metadata_server.py ADDRESS ATTRIBUTES`, attributes as a JSON object of strings. It answers what
https://cloud.google.com/compute/docs/metadata/querying-metadata says, 403 without the header included.
"""

from __future__ import annotations

import json
import sys
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PREFIX = "/computeMetadata/v1/instance/attributes/"
ATTRIBUTES: dict[str, str] = json.loads(sys.argv[2])


class Handler(BaseHTTPRequestHandler):
    """Answers GET for one attribute."""

    def do_GET(self) -> None:
        name = self.path.removeprefix(PREFIX)
        if self.headers.get("Metadata-Flavor") != "Google":
            self.answer(HTTPStatus.FORBIDDEN, "Missing Metadata-Flavor:Google header.")
        elif self.path.startswith(PREFIX) and name in ATTRIBUTES:
            self.answer(HTTPStatus.OK, ATTRIBUTES[name])
        else:
            self.answer(HTTPStatus.NOT_FOUND, "")

    def answer(self, status: HTTPStatus, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Metadata-Flavor", "Google")
        self.send_header("Content-Type", "application/text")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    ThreadingHTTPServer((sys.argv[1], 80), Handler).serve_forever()
