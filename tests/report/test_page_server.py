"""The served page: this machine only, read-only, and there when records arrive."""

import http.client
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from page_helpers import record, usual_id

from engram.cli.report import picture_files, sample_pictures
from engram.report.page import server as server_module
from engram.report.page.assemble import assemble
from engram.report.page.server import Latest, Server
from engram.runs.records import append_record, read_records


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    append_record(tmp_path / "a.jsonl", record("adam", 0, 20.0, published=True))
    return tmp_path


@pytest.fixture
def server(folder: Path) -> Iterator[Server]:
    def files() -> list[Path]:
        return sorted(folder.glob("*.jsonl"))

    def make():
        return {**assemble(read_records(*files())), "sources": str(folder)}

    with Server(Latest(files, make)) as found:
        thread = threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield found
        found.shutdown()
        thread.join()


def ask(server: Server, path: str = "/", method: str = "GET", **headers: str):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer, body


def test_it_listens_on_loopback_only(server: Server) -> None:
    assert server.socket.getsockname()[0] == "127.0.0.1"
    assert server.address == f"http://127.0.0.1:{server.server_port}/"


def test_the_page_and_its_data(server: Server) -> None:
    answer, body = ask(server)
    assert (answer.status, answer.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert b"connect-src 'self'" in body
    answer, body = ask(server, "/data.json")
    data = json.loads(body)
    assert data["settings"][usual_id("split-mnist/class", "adam")]["mean"] == 20.0
    assert data["tag"] == answer.headers["ETag"]
    assert answer.headers["Cache-Control"] == "no-store"


def test_head_answers_without_a_body(server: Server) -> None:
    answer, body = ask(server, "/data.json", "HEAD")
    assert (answer.status, body) == (200, b"")
    assert int(answer.headers["Content-Length"]) == len(ask(server, "/data.json")[1])


def test_what_is_known_is_not_sent_again_until_a_record_comes(server: Server, folder: Path) -> None:
    tag = ask(server, "/data.json")[0].headers["ETag"]
    answer, body = ask(server, "/data.json", If_None_Match=tag)
    assert (answer.status, body) == (304, b"")
    append_record(folder / "b.jsonl", record("adam", 1, 30.0, published=True))
    answer, body = ask(server, "/data.json", If_None_Match=tag)
    assert answer.status == 200
    assert json.loads(body)["settings"][usual_id("split-mnist/class", "adam")]["mean"] == 25.0
    assert answer.headers["ETag"] != tag


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"])
def test_nothing_can_be_changed(server: Server, method: str) -> None:
    answer, _ = ask(server, "/data.json", method)
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "localhost.evil:{port}", ""]
)
def test_other_names_for_this_machine_are_not_answered(server: Server, host: str) -> None:
    """A page elsewhere could else point its own name at 127.0.0.1 and read along."""
    answer, body = ask(server, "/data.json", Host=host.format(port=server.server_port))
    assert answer.status == 421
    assert b"adam" not in body


@pytest.mark.parametrize("host", ["127.0.0.1:{port}", "localhost:{port}"])
def test_its_own_names_are_answered(server: Server, host: str) -> None:
    assert ask(server, "/", Host=host.format(port=server.server_port))[0].status == 200


@pytest.mark.parametrize("path", ["/results/table2.jsonl", "/../pyproject.toml", "/data.json/"])
def test_there_is_nothing_else(server: Server, path: str) -> None:
    assert ask(server, path)[0].status == 404


def test_the_open_page_shows_a_record_that_arrives_and_stays_where_it_is(server: Server, folder: Path, page) -> None:
    page.open(server.address + "#cell/table2/adam/class", height=500)
    page.wait("document.getElementById('live').textContent === 'live, 1 run'")
    page.js("document.documentElement.scrollTop = 300; document.getElementById('details').scrollTop = 120")
    append_record(folder / "b.jsonl", record("adam", 1, 30.0, published=True))
    page.wait("document.getElementById('live').textContent === 'live, 2 runs'")
    assert page.texts("#details dd")[0] == "25.00 ± 5.00"
    assert page.js("return [document.documentElement.scrollTop, document.getElementById('details').scrollTop]") == [
        300,
        120,
    ]
    page.js("document.getElementById('details').close()")
    assert "25.00" in page.find("#grid-table2 td[data-focus='table2 adam 2']").text
    assert page.driver.get_log("browser") == []


def test_idle_connections_are_closed_in_time(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module.Handler, "timeout", 0.2)
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=20) as idle:
        idle.sendall(b"GET / HT")
        assert idle.recv(10) == b""  # closed, though the request was not complete


def test_many_idle_connections_leave_room_for_the_next(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "MOST_CONNECTIONS", 8)
    before = threading.active_count()
    idle = [socket.create_connection(("127.0.0.1", server.server_port), timeout=20) for _ in range(100)]
    try:
        answer, _ = ask(server, "/data.json")
        assert answer.status == 200
        assert len(server.open) <= 8
        assert threading.active_count() - before < 20
    finally:
        for one in idle:
            one.close()


def test_at_the_limit_of_open_files_it_waits_and_answers_again(server: Server) -> None:
    """The loop neither ends nor spins, and the oldest connection gives way."""
    resource = pytest.importorskip("resource")
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    client = socket.socket()
    client.settimeout(20)
    highest = max(int(path.name) for path in Path("/proc/self/fd").iterdir()) if Path("/proc/self/fd").exists() else 0
    if not highest:
        pytest.skip("no list of open files here")
    idle = socket.create_connection(("127.0.0.1", server.server_port), timeout=20)
    fill = []
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 8, limit[1]))
        with suppress(OSError):
            while True:
                fill.append(os.dup(0))
        client.connect(("127.0.0.1", server.server_port))  # waits in the queue: there is no file for it
        spent = time.process_time()
        assert idle.recv(10) == b""  # the oldest gave way
        client.sendall(f"GET /x HTTP/1.1\r\nHost: 127.0.0.1:{server.server_port}\r\n\r\n".encode())
        assert client.recv(12) == b"HTTP/1.1 404"
        assert time.process_time() - spent < 1
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limit)
        for one in fill:
            os.close(one)
        idle.close()
        client.close()


def test_what_goes_wrong_with_the_files_is_told(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken():
        raise PermissionError("nobody may read it")

    monkeypatch.setattr(server.latest, "make", broken)
    answer, body = ask(server)
    assert (answer.status, body) == (500, b"the page cannot be made: PermissionError: nobody may read it\n")


def test_a_pipe_among_the_pictures_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    assert sample_pictures(tmp_path) == {}
    assert picture_files(tmp_path) == []
