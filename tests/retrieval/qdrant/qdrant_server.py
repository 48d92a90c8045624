"""The part of a Qdrant server's HTTP interface that an index uses, over the store that comes with qdrant-client.

It keeps what it was asked, so that a test sees which requests a real server would get.
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from qdrant_client import QdrantClient, models


class QdrantServer:
    """Serves an empty store at `url` until it is closed; `asked` has a (method, path, body) for each request."""

    def __init__(self):
        self.store, self.asked = QdrantClient(":memory:"), []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = False
        self._server.owner, self._server.access = self, threading.Lock()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def bodies(self, method, ending):
        return [body for asked, path, body in self.asked if asked == method and path.endswith(ending)]

    def close(self):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self.store.close()


class _Handler(BaseHTTPRequestHandler):
    def _do(self):
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or "{}")
        path = urlsplit(self.path).path
        self.server.owner.asked.append((self.command, path, body))
        with self.server.access:
            result = answer(self.server.owner.store, self.command, path.strip("/").split("/")[1:], body)
        content = json.dumps({"result": plain(result), "status": "ok", "time": 0.0}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_GET(self):
        self._do()

    def do_PUT(self):
        self._do()

    def do_POST(self):
        self._do()

    def do_DELETE(self):
        self._do()

    def log_message(self, format, *args):
        pass


def plain(result):
    if isinstance(result, list):
        return [plain(entry) for entry in result]
    return result.model_dump(mode="json") if hasattr(result, "model_dump") else result


def answer(store, method, parts, body):
    """What the store gives for a request below /collections."""
    name = parts[0] if parts else ""
    match method, parts[1:]:
        case "GET", []:
            return store.get_collections()
        case "GET", ["exists"]:
            return {"exists": store.collection_exists(name)}
        case "DELETE", []:
            return store.delete_collection(name)
        case "PUT", []:
            vectors = {key: models.VectorParams(**value) for key, value in body["vectors"].items()}
            return store.create_collection(name, vectors_config=vectors)
        case "PUT", ["points"]:
            return store.upsert(name, [models.PointStruct(**point) for point in body["points"]])
        case "POST", ["points"]:
            return store.retrieve(name, body["ids"], with_payload=True)
        case "POST", ["points", "count"]:
            return store.count(name, exact=True)
        case "POST", ["points", "scroll"]:
            points, after = store.scroll(name, limit=body["limit"], offset=body.get("offset"))
            return {"points": plain(points), "next_page_offset": after}
        case "POST", ["points", "delete"]:
            return store.delete(name, models.PointIdsList(points=body["points"]))
        case "POST", ["points", "query"]:
            query = models.NearestQuery(**body["query"])
            asked = {"query": query, "using": body["using"], "limit": body["limit"], "with_payload": True}
            if body.get("filter"):
                asked["query_filter"] = models.Filter(**body["filter"])
            if body.get("prefetch"):
                asked["prefetch"] = models.Prefetch(**body["prefetch"])
            return store.query_points(name, **asked)
    raise AssertionError(f"not a request that an index makes: {method} {parts}")
