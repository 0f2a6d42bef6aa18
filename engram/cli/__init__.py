"""The command line. Each command imports what it needs, so that help and tables answer without torch."""

from __future__ import annotations

import atexit
import errno
import gc
import importlib
import io
import os
import sys
from collections.abc import Callable, Sequence

COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("run", "train a method on a scenario and record what came of it"),
    "study": ("study", "run the table that a TOML file describes: mean ± std, memory, time, paired tests"),
    "table": ("study", "a table of records that belong to no study, or of a CSV file, with the same tests"),
    "search": ("search", "tune methods with the same number of trials each, and say what that cost"),
    "reproduce": ("study", "make the runs of a published table that are not recorded yet"),
    "compare": ("compare", "our numbers against the published ones, with verdicts, from the records"),
    "verify": ("verify", "repeat recorded runs, picked at random: same bits, within spread, or moved"),
    "check": ("check", "whether a method, network or scenario keeps the contract: bits, resume, memory, state"),
    "diff": ("diff", "which settings moved between two files of records, with a paired test"),
    "figure": ("figure", "pictures for papers: accuracy matrices, curves, bars, memory, the kinds of scenario"),
    "report": ("report", "the records as one HTML page: tables, and every run behind every cell"),
    "serve": ("report", "the same page while a sweep runs, on this machine only"),
    "describe": ("describe", "a scenario's tasks, its kind as measured on the data, its forgetting floor"),
    "ls": ("ls", "methods, nets, scenarios, datasets, metrics, tables, studies or runs"),
    "schema": ("schema", "the form of a record or of a study file as a JSON schema"),
    "data": ("data", "fetch datasets, and say where they are"),
    "doctor": ("doctor", "check records, checkpoints and datasets for damage, and repair it"),
    "bench": ("bench", "speed and memory on this machine"),
}
"""Command → module with a function `COMMAND_command`, and what it does."""

HELP = """usage: engram COMMAND [--help]

engram evaluates continual learning: it turns datasets into task sequences, trains any method on them under one
protocol, and says how much was forgotten and whether the numbers agree with the published ones.

commands:
{commands}

for example:
  engram run split-mnist/class adam          10 seconds: one run, recorded, with its accuracies
  engram run split-mnist/task adagrad --help every value that can be set, its default, its source
  engram describe permuted-mnist/domain      what changes between its tasks
  engram study mine.toml                     a table of your own: rows, columns, seeds, paired tests
  engram compare table2                      our numbers against the paper's Table 2
"""


class WrongCallError(ValueError):
    """The call or the data were wrong, and nothing ran."""


class StoppedError(RuntimeError):
    """What was asked for could not be finished; what was done is kept."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point. Exit status: 0 done, 1 a run failed or diverged, 2 the call or the data were wrong."""
    argv = list(sys.argv[1:] if arguments is None else arguments)
    prepare_streams()
    gc.set_threshold(50_000, 20, 50)  # records are many small objects without cycles
    atexit.register(gc.freeze)  # or the interpreter looks through all of torch for what it could free, at the very end
    try:
        status = dispatch(argv)
        if sys.stdout:
            sys.stdout.flush()  # what cannot be written is told here, not by the interpreter at its very end
        sys.exit(status)
    except KeyboardInterrupt:
        print("\nengram: stopped; the same command continues where it stopped", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # a pager or head was closed: not an error of ours
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            print(f"engram: {error.strerror}: raise the limit (ulimit -n), 256 will do", file=sys.stderr)
            sys.exit(1)
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
            raise
        leave_stdout()
        print(f"engram: nothing more can be written: {error.strerror}; finished records are kept", file=sys.stderr)
        sys.exit(1)


def prepare_streams() -> None:
    """Opens standard streams that the caller closed, or the first file that is opened would take their place; on a
    terminal or pipe that takes ASCII only, other characters are shown as `?`."""
    while (free := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(free, True)
    os.close(free)
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115, PTH123 (for as long as the process lives)
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115, PTH123
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and not stream.encoding.lower().startswith("utf"):
            stream.reconfigure(errors="replace")


def leave_stdout() -> None:
    """What is still to be printed goes nowhere: nobody reads it, or it cannot be written."""
    if sys.stdout:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def leave_stderr() -> None:
    """The same of remarks."""
    if sys.stderr:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def dispatch(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(HELP.format(commands="\n".join(f"  {name:<11}{what}" for name, (_, what) in COMMANDS.items())))
        return 0
    if argv[0] == "--version":
        from engram import __version__

        print(f"engram {__version__}")
        return 0
    if argv[0] not in COMMANDS:
        from engram.core.messages import unknown

        return refuse(unknown("command", argv[0], COMMANDS))
    if needs_workers(argv):
        from engram.engines.forks import start_fork_server

        start_fork_server()
    module = importlib.import_module(f"engram.cli.{COMMANDS[argv[0]][0]}")
    command: Callable[[list[str]], int] = getattr(module, f"{argv[0]}_command")
    from engram.core.userfile import one_call

    try:
        with one_call():
            return command(argv[1:])
    except WrongCallError as error:
        return refuse(str(error))
    except StoppedError as error:
        refuse(str(error))
        return 1
    except OSError as error:
        wrong_path = isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError | NotADirectoryError)
        if error.filename is None or not (wrong_path or error.errno in (errno.ENAMETOOLONG, errno.ELOOP)):
            raise
        return refuse(f"{error.filename}: {error.strerror}")  # a file of the call's that may not be read or written


def needs_workers(argv: list[str]) -> bool:
    """Whether a command will have worker processes; they can import torch while we do."""
    if {"-h", "--help", "--dry-run"} & set(argv):
        return False
    after = " ".join(argv).replace("=", " ").partition(" --seeds ")[2].split()
    many = bool(after) and after[0] != "1"  # a single run is computed in this process
    return many or argv[0] in ("reproduce", "search", "study")


def refuse(message: str) -> int:
    print(f"engram: {message}", file=sys.stderr)
    return 2
