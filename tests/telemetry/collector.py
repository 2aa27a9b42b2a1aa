"""OTLP collectors of our own: over HTTP and gRPC, and two that are of no use to anybody."""

from __future__ import annotations

import socket
import threading
from concurrent import futures
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import grpc  # type: ignore[import-untyped]
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2 as logs
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2_grpc as logs_grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2_grpc as metrics_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as traces
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as traces_grpc

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

REQUESTS: dict[str, Any] = {
    "/v1/traces": traces.ExportTraceServiceRequest,
    "/v1/metrics": metrics.ExportMetricsServiceRequest,
    "/v1/logs": logs.ExportLogsServiceRequest,
}


def plain(attributes: Iterable[Any]) -> dict[str, Any]:
    """Attributes as a dict."""
    return {a.key: getattr(a.value, a.value.WhichOneof("value")) for a in attributes}


class Received:
    """What arrived, and a way to wait for more of it."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.headers: list[dict[str, str]] = []
        self.url = ""
        self.status = 200
        self.asked = threading.Semaphore(0)
        """Released by every push, before it is answered."""
        self.free = threading.Event()
        """Cleared, pushes wait for their answers."""
        self.free.set()
        self._came = threading.Condition()

    def add(self, request: object, headers: dict[str, str]) -> None:
        with self._came:
            self.requests.append(request)
            self.headers.append(headers)
            self._came.notify_all()

    def wait(self, count: int, what: str) -> None:
        """Wait until so many spans, logs or metrics arrived."""
        with self._came:
            assert self._came.wait_for(lambda: len(getattr(self, what)) >= count, 15), getattr(self, what)

    @property
    def scopes(self) -> list[tuple[dict[str, Any], Any]]:
        """Each scope with the attributes of its resource."""
        found = []
        for request in list(self.requests):
            for field in ("resource_spans", "resource_metrics", "resource_logs"):
                for group in getattr(request, field, ()):
                    inner = field.replace("resource", "scope")
                    found += [(plain(group.resource.attributes), s) for s in getattr(group, inner)]
        return found

    @property
    def spans(self) -> list[Any]:
        return [span for _, scope in self.scopes for span in getattr(scope, "spans", ())]

    @property
    def logs(self) -> list[Any]:
        return [record for _, scope in self.scopes for record in getattr(scope, "log_records", ())]

    @property
    def pushes(self) -> list[dict[str, Any]]:
        """Each push of metrics, by name."""
        return [{m.name: m for m in s.metrics} for _, s in self.scopes if getattr(s, "metrics", ())]


@contextmanager
def over_http() -> Iterator[Received]:
    received = Received()

    class Take(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = REQUESTS[self.path]()
            request.ParseFromString(self.rfile.read(int(self.headers["Content-Length"])))
            status = received.status
            received.asked.release()
            received.free.wait(20)
            if status == 200:
                received.add(request, {k.lower(): v for k, v in self.headers.items()})
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Take) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        received.url = f"http://127.0.0.1:{server.server_address[1]}"
        yield received
        server.shutdown()


@contextmanager
def over_grpc() -> Iterator[Received]:
    received = Received()

    class Take:
        def __init__(self, response: type) -> None:
            self._response = response

        def Export(self, request: object, context: grpc.ServicerContext) -> object:  # noqa: N802 - gRPC
            received.asked.release()
            received.free.wait(20)
            received.add(request, {key: str(value) for key, value in context.invocation_metadata()})
            return self._response()

    server = grpc.server(futures.ThreadPoolExecutor(4))
    traces_grpc.add_TraceServiceServicer_to_server(Take(traces.ExportTraceServiceResponse), server)  # type: ignore[no-untyped-call]
    metrics_grpc.add_MetricsServiceServicer_to_server(Take(metrics.ExportMetricsServiceResponse), server)  # type: ignore[no-untyped-call]
    logs_grpc.add_LogsServiceServicer_to_server(Take(logs.ExportLogsServiceResponse), server)  # type: ignore[no-untyped-call]
    received.url = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    yield received
    server.stop(0).wait()


@contextmanager
def refusing() -> Iterator[str]:
    """Keep a port that nobody listens on."""
    with socket.socket() as kept:
        kept.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{kept.getsockname()[1]}"


@contextmanager
def mute() -> Iterator[str]:
    """Accept connections and never answer."""
    with ExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=64))
        held: list[socket.socket] = []

        def accept() -> None:
            while True:
                try:
                    held.append(listening.accept()[0])
                except OSError:
                    return

        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
        for connection in held:
            connection.close()
