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


def with_optimizer_options(arguments: list[str]) -> list[str]:
    """`--optimizer.eps 1e-7` as `--optimizer-options eps=1e-7`: which fields there are depends on the optimiser."""
    left: list[str] = []
    options: list[str] = []
    words = list(arguments)
    while words:
        word = words.pop(0)
        if not word.startswith("--optimizer."):
            left.append(word)
            continue
        name, equals, value = word.removeprefix("--optimizer.").partition("=")
        values = [value] if equals else []
        while not equals and words and not words[0].startswith("--"):
            values.append(words.pop(0))
        if name in ("betas", "momentum", "weight_decay", "weight-decay", "nesterov", "lr"):  # flags of their own
            left += [f"--{name.replace('_', '-')}", *values]
        else:
            options.append(f"{name.replace('-', '_')}={','.join(values)}")
    return [*left, "--optimizer-options", *options] if options else left
