"""The part of a Qdrant server's HTTP interface that an index uses, over the store that comes with qdrant-client.

It keeps what it was asked, so that a test sees which requests a real server would get.
"""

import socket
import threading

import uvicorn
from qdrant_client import QdrantClient, models
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route


class QdrantServer:
    """Serves an empty store at `url` until it is closed.

    `asked` has a (method, path, body) for each request, and `keys` the key that came with it.
    """

    def __init__(self):
        self.store, self.asked, self.keys = QdrantClient(":memory:"), [], []
        listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        routes = [Route("/{path:path}", self._answer, methods=["GET", "PUT", "POST", "DELETE"])]
        self._server = uvicorn.Server(uvicorn.Config(Starlette(routes=routes), log_config=None, lifespan="off"))
        self._thread = threading.Thread(target=self._server.run, args=([listening],))
        self._thread.start()

    async def _answer(self, request):
        body = await request.json() if await request.body() else {}
        self.asked.append((request.method, request.url.path, body))
        self.keys.append(request.headers.get("api-key"))
        result = answer(self.store, request.method, request.path_params["path"].split("/")[1:], body)
        return JSONResponse({"result": plain(result), "status": "ok", "time": 0.0})

    def bodies(self, method, ending):
        return [body for asked, path, body in self.asked if asked == method and path.endswith(ending)]

    def close(self):
        self._server.should_exit = True
        self._thread.join()
        self.store.close()


def plain(result):
    if isinstance(result, list):
        return [plain(entry) for entry in result]
    return result.model_dump(mode="json") if hasattr(result, "model_dump") else result


def answer(store, method, parts, body):
    """What the store gives for a request below /collections."""
    name = parts[0] if parts else ""
    match method, parts[1:]:
        case "GET", []:
            return store.get_collection(name) if name else store.get_collections()
        case "POST", ["points", "query", "batch"]:
            return [answer(store, "POST", [name, "points", "query"], search) for search in body["searches"]]
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
            asked = {"query": query, "using": body.get("using"), "limit": body["limit"], "with_payload": True}
            if body.get("filter"):
                asked["query_filter"] = models.Filter(**body["filter"])
            if body.get("prefetch"):
                asked["prefetch"] = models.Prefetch(**body["prefetch"])
            return store.query_points(name, **asked)
    raise AssertionError(f"not a request that an index makes: {method} {parts}")
