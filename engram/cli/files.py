"""Files of one's own on the command line: `--file my.py`. Works without torch until there is one."""

from __future__ import annotations

from pathlib import Path

from engram.cli import WrongCallError

FILE_FLAGS = ("--file", "--method-file")


def with_files(arguments: list[str]) -> list[str]:
    """Loads the files of --file and takes the flag out: what they define are names and flags like any other."""
    left = []
    words = iter(arguments)
    for word in words:
        flag, equals, value = word.partition("=")
        if flag not in FILE_FLAGS:
            left.append(word)
            continue
        path = value if equals else next(words, "")
        if not path or path.startswith("--"):
            raise WrongCallError(f"{flag} needs a Python file, as in {flag} mine.py")
        from engram.core.registry import load_file

        try:
            load_file(Path(path))
        except ValueError as error:
            raise WrongCallError(str(error)) from error
    return left
