"""Data folders of a test's own, a web host on this machine, and clients that serve what a test gives them."""

import socket
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from engram.data.catalog import images
from engram.data.errors import DataError
from engram.data.images import Images


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """An empty ENGRAM_DATA and an empty cache, neither of which exists yet."""
    monkeypatch.setenv("ENGRAM_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "data", tmp_path / "cache/engram"


@pytest.fixture
def dead() -> str:
    """A host at whose port nobody listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{listener.getsockname()[1]}/"


@dataclass
class Web:
    """A web host: `pages` by path; a page in `cut` breaks off half-way, after `halfway` and before `resume`."""

    url: str
    pages: dict[str, bytes] = field(default_factory=dict)
    cut: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)
    halfway: threading.Event = field(default_factory=threading.Event)
    resume: threading.Event = field(default_factory=threading.Event)


@pytest.fixture
def web() -> Iterator[Web]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            host.asked.append(self.path)
            if self.path not in host.pages:
                return self.send_error(404)
            page = host.pages[self.path]
            self.send_response(200)
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            if self.path in host.cut:
                self.wfile.write(page[: len(page) // 2])
                host.halfway.set()
                host.resume.wait(30)
                return None
            self.wfile.write(page)
            return None

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    host = Web(f"http://127.0.0.1:{server.server_address[1]}/")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield host
    host.resume.set()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def clients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on PATH; a test puts clients there with `client`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


@pytest.fixture
def client(clients: Path):
    """Put a client on PATH: a Python program, with `args` for its arguments."""

    def put(name: str, program: str) -> None:
        head = f"#!{sys.executable}\nimport shutil, sys, time\nfrom pathlib import Path\nargs = sys.argv[1:]\n"
        (clients / name).write_text(head + program)
        (clients / name).chmod(0o755)

    return put


def _real(name: str) -> Images:
    try:
        return images(name)
    except DataError as error:
        return pytest.skip(f"no place has it: {error}")


@pytest.fixture(scope="session")
def mnist() -> Images:
    """The real set, from the user's own data folders: fetched once on a machine."""
    return _real("mnist")


@pytest.fixture(scope="session")
def fashion_mnist() -> Images:
    return _real("fashion-mnist")
