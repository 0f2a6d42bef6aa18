"""Where commands write: results to standard output, progress and remarks to standard error."""

import sys

from rich.console import Console

WIDE = 150
"""Columns where there is no terminal to ask: wide enough that tables in logs are not folded."""

OUT = Console(highlight=False, width=None if sys.stdout.isatty() else WIDE)
ERR = Console(highlight=False, stderr=True, width=None if sys.stderr.isatty() else WIDE)
