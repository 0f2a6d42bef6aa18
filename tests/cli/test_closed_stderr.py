"""A closed standard error is silence, not an end."""

import os

from engram.cli.screen import Remarks
from engram.core.messages import tell


def test_remarks_that_nobody_reads_are_dropped(monkeypatch):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as closed:
        monkeypatch.setattr("sys.stderr", closed)
        console = Remarks(stderr=True)
        console.print("the first line finds the pipe closed")
        console.print("and the next is not written")
        assert console.quiet
        tell("nor is this")


def test_a_line_for_people_does_not_end_a_run_if_nobody_reads_it(monkeypatch):
    reader, writer = os.pipe()
    os.close(reader)
    closed = os.fdopen(writer, "w")
    monkeypatch.setattr("sys.stderr", closed)
    tell("nobody reads this")
    os.dup2(os.open(os.devnull, os.O_WRONLY), closed.fileno())  # or closing it would fail
    closed.close()
