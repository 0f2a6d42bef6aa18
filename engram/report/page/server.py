"""The page while a sweep runs: served to this machine only, read-only, rebuilt when the record files change."""

from __future__ import annotations

import hashlib
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from engram.report.page.html import html, json_text

LOOPBACK = "127.0.0.1"
IDLE_SECONDS = 20.0
"""A connection that sends or takes nothing for so long is closed; the page asks every few seconds."""
MOST_CONNECTIONS = 64
"""Connections, each with a thread, at a time; a further one closes the oldest."""
HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Latest:
    """The page's data, rebuilt when a file has been added, removed or changed."""

    def __init__(self, files: Callable[[], Sequence[Path]], make: Callable[[], dict[str, Any]]) -> None:
        self.files, self.make = files, make
        self.lock = threading.Lock()
        self.tag = ""
        self.data: dict[str, Any] = {}

    def read(self) -> tuple[str, dict[str, Any]]:
        """(a tag of this state of the files, the data)."""
        with self.lock:
            tag = tag_of(self.files())  # before reading: what is written meanwhile is read next time
            if tag != self.tag:
                self.tag, self.data = tag, {**self.make(), "live": True, "tag": tag}
            return self.tag, self.data


def tag_of(files: Sequence[Path]) -> str:
    """Changes when a file's name, size or time does."""
    found = []
    for file in files:
        try:
            found.append((str(file), file.stat().st_size, file.stat().st_mtime_ns))
        except OSError:  # gone since it was listed
            continue
    return f'"{hashlib.sha256(repr(found).encode()).hexdigest()[:16]}"'


class Handler(BaseHTTPRequestHandler):
    """GET and HEAD of the page and of its data; nothing can be changed from outside."""

    server: Server
    protocol_version = "HTTP/1.1"
    server_version = "engram"
    sys_version = ""
    timeout = IDLE_SECONDS

    def do_GET(self) -> None:
        host = self.headers.get("Host", "")
        if host not in self.server.hosts:  # another name for this address: a page elsewhere could read along
            self.answer(HTTPStatus.MISDIRECTED_REQUEST, "this server answers to its own address only\n")
            return
        path = self.path.partition("?")[0]
        if path not in ("/", "/data.json"):
            self.answer(HTTPStatus.NOT_FOUND, "there is / and /data.json\n")
            return
        try:
            tag, data = self.server.latest.read()
        except Exception as error:  # whatever is wrong with the files: the reader is told, and may mend it
            text = f"the page cannot be made: {type(error).__name__}: {error}\n"
            self.answer(HTTPStatus.INTERNAL_SERVER_ERROR, text)
            return
        if path == "/":
            self.answer(HTTPStatus.OK, html(data), "text/html", tag)
        elif self.headers.get("If-None-Match") == tag:
            self.answer(HTTPStatus.NOT_MODIFIED, "", "application/json", tag)
        else:
            self.answer(HTTPStatus.OK, json_text(data), "application/json", tag)

    def do_HEAD(self) -> None:
        self.do_GET()

    def __getattr__(self, name: str) -> Callable[[], None]:
        """`do_POST` and every other verb."""
        if name.startswith("do_"):
            return self.refuse
        raise AttributeError(name)

    def refuse(self) -> None:
        self.close_connection = True  # the body of the request is not read
        self.answer(HTTPStatus.METHOD_NOT_ALLOWED, "this server is read-only\n")

    def answer(self, status: HTTPStatus, text: str, kind: str = "text/plain", tag: str = "") -> None:
        body = text.encode()
        self.send_response(status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        if status == HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET, HEAD")
            self.send_header("Connection", "close")
        if tag:
            self.send_header("ETag", tag)
        if status != HTTPStatus.NOT_MODIFIED:
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD" and status != HTTPStatus.NOT_MODIFIED:
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: a line per request would hide what matters."""


class Server(ThreadingHTTPServer):
    """On the loopback interface; port 0 takes a free one."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, latest: Latest, port: int = 0) -> None:
        super().__init__((LOOPBACK, port), Handler)
        self.latest = latest
        self.open: dict[socket.socket, None] = {}
        self.counting = threading.Lock()
        self.hosts = {f"{name}:{self.server_port}" for name in (LOOPBACK, "localhost")}
        if self.server_port == 80:
            self.hosts |= {LOOPBACK, "localhost"}

    @property
    def address(self) -> str:
        return f"http://{LOOPBACK}:{self.server_port}/"

    def get_request(self) -> tuple[socket.socket, Any]:
        """A new connection; if the limit of open files is reached, the oldest gives way to it."""
        try:
            return super().get_request()
        except OSError:
            self.close_oldest(0)
            time.sleep(0.1)  # or the loop would ask again at once, and spin
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        self.close_oldest(MOST_CONNECTIONS - 1)
        with self.counting:
            self.open[request] = None
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self.counting:
            self.open.pop(request, None)
        super().shutdown_request(request)

    def close_oldest(self, most: int) -> None:
        """Close the oldest connection if there are more than so many; its thread then ends by itself."""
        with self.counting:
            if len(self.open) <= most:
                return
            oldest = next(iter(self.open))
            del self.open[oldest]
        with suppress(OSError):
            oldest.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing: who asked is gone, and others are not concerned."""
