"""An S3-compatible object store on this machine, moto's, which counts what is read; needs `moto[s3,server]`.

The benchmark `scale` starts it with the interpreter of `--lance-python`. It prints its address and has an empty
bucket. It answers one request at a time, since moto reads the whole object for every part of it that is asked for.
`GET /counts` returns the number of requests so far, and the bytes of the replies.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterable
from typing import Any

BUCKET = "passages"


class Counted:
    """A WSGI application whose requests and bytes are counted."""

    def __init__(self, app: Callable[..., Iterable[bytes]]) -> None:
        self._app, self._one_by_one, self._requests, self._bytes = app, threading.Lock(), 0, 0

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer a request."""
        with self._one_by_one:
            if environ["PATH_INFO"] == "/counts":
                start_response("200 OK", [("Content-Type", "application/json")])
                return [json.dumps([self._requests, self._bytes]).encode()]
            reply = list(self._app(environ, start_response))
            self._requests += 1
            self._bytes += sum(map(len, reply))
            return reply


def main() -> None:
    """Serve until the process is ended."""
    from moto.moto_server.werkzeug_app import (  # pyright: ignore[reportMissingImports]
        DomainDispatcherApplication,
        create_backend_app,
    )
    from werkzeug.serving import make_server  # pyright: ignore[reportMissingImports]

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = make_server("127.0.0.1", 0, Counted(DomainDispatcherApplication(create_backend_app)), threaded=True)
    threading.Thread(target=server.serve_forever).start()
    address = f"http://127.0.0.1:{server.server_port}"
    with urllib.request.urlopen(urllib.request.Request(f"{address}/{BUCKET}", method="PUT")):
        sys.stdout.write(address + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
