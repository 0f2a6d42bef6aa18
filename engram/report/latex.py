"""A table as LaTeX in print's own layout. Compiles with booktabs; colortbl and amssymb make it prettier."""

from __future__ import annotations

from collections.abc import Sequence

from engram.report.footer import notes, twin_notes
from engram.report.layout import MARKS, Row, headings, number, ours, sections, with_memory
from engram.studies.hsu2018.cells import QUEUE_TABLES, TABLES, Cell
from engram.studies.hsu2018.twin_cells import TwinCell

PREAMBLE = r"""% Needs \usepackage{booktabs}; colortbl makes the thin rules grey, amssymb the check marks prettier.
\providecommand{\checkmark}{\ensuremath{\surd}}
\ifdefined\arrayrulecolor\else\def\arrayrulecolor[#1]#2{}\fi"""
THIN = r"\arrayrulecolor[gray]{0.7}\specialrule{0.3pt}{1pt}{1pt}\arrayrulecolor[gray]{0}"
SIGNS = {"agrees": "$=$", "higher": r"$\uparrow$", "lower": r"$\downarrow$", "missing": "--"}
LEGEND = (
    r"Average accuracy in percent. Below each of our numbers: print, our runs in brackets, and whether ours agrees "
    r"with print ($=$), is higher ($\uparrow$), lower ($\downarrow$) or missing (--)."
)
BEGIN = (r"\begin{table}", r"\centering\footnotesize\setlength{\tabcolsep}{3pt}")
PLUS_MINUS = r"\pm"


def latex(table: str, cells: Sequence[Cell], twins: Sequence[TwinCell], footer: Sequence[str]) -> str:
    """The table with ours above print in each row; twins and the footer below it."""
    memory = with_memory(table)
    columns = len(dict.fromkeys(cell.column for cell in cells))
    lines = [
        PREAMBLE,
        *BEGIN,
        rf"\caption{{{escaped(TABLES[table][0])}. {LEGEND}}}",
        r"\begin{tabular}{l" + "c" * (columns + memory) + "}",
        r"\toprule",
        *head(table, cells),
    ]
    for section in sections(table, cells):
        lines.append(r"\midrule")
        if section.title:
            lines.append(rf"\multicolumn{{{1 + memory + columns}}}{{l}}{{\textit{{{section.title}}}}} \\")
        for before, row in zip((None, *section.rows), section.rows, strict=False):
            if memory and row.memory and before and not before.memory:
                lines.append(THIN)
            lines += body(row, memory)
    lines += [r"\bottomrule", r"\end{tabular}", r"\end{table}"]
    if not cells:
        lines = [PREAMBLE]
    if twins:
        lines += twin_lines(twins)
    # after the floats: with all that is to be said they would not fit a page
    lines += ["", r"{\scriptsize", *(escaped(s) + r"\par" for s in (*footer, *notes(cells), *twin_notes(twins))), "}"]
    return "\n".join(lines) + "\n"


def head(table: str, cells: Sequence[Cell]) -> list[str]:
    """One line of headings, or two with rules between them, as in Tables 4 to 6."""
    above = headings(cells)
    first = "Tasks" if table in QUEUE_TABLES else "Method"
    front = [first, "Memory"] if with_memory(table) else [first]
    if not any(below for _, below in above):
        words = [title.partition(" ") for title, _ in above]  # two lines, or three columns would not fit a page
        return [line([*front, *(first for first, _, _ in words)]), line(["" for _ in front] + [w[2] for w in words])]
    spans = [rf"\multicolumn{{{len(below) or 1}}}{{c}}{{{title}}}" for title, below in above]
    rules, at = [], len(front) + 1
    for _, below in above:
        if below:
            rules.append(rf"\cmidrule(lr){{{at}-{at + len(below) - 1}}}")
        at += len(below) or 1
    second = "Known total \\#class?" if table == "table4" else ""
    parts = [part for _, below in above for part in below or [""]]
    return [line([*front, *spans]), "".join(rules), line([second, *("" for _ in front[1:]), *parts])]


def body(row: Row, memory: bool) -> list[str]:
    """Ours, and below it in small print, how many runs, and the verdict."""
    mark = [r"\checkmark" if row.memory else ""] if memory else []
    means = [math(ours(cell, PLUS_MINUS), bold=cell.column in row.bold) for cell in row.cells]
    small = [
        rf"{{\tiny {math(number(cell.paper, cell.paper_std, PLUS_MINUS))} ({cell.n}) {SIGNS[cell.verdict]}}}"
        for cell in row.cells
    ]
    return [line([escaped(row.title), *mark, *means], "[-3pt]"), line(["", *("" for _ in mark), *small], "[1pt]")]


def twin_lines(twins: Sequence[TwinCell]) -> list[str]:
    lines = [
        *BEGIN,
        r"\caption{Twins, as meant, where the authors' code departs from it.}",
        r"\begin{tabular}{llccl}",
        r"\toprule",
        line(["Twin, as meant", "Column", "Twin's", "Row's", "Difference"]),
        r"\midrule",
    ]
    for twin in twins:
        mean = math(ours(twin, PLUS_MINUS)) + (f" ($n={twin.n}$)" if twin.n else "")
        of_row = "–" if twin.of_row is None else f"{twin.of_row:.2f}"
        cells = [twin.row, twin.column, mean, of_row, twin.says()]
        lines.append(line([cell if "$" in cell else escaped(cell) for cell in cells]))
    return [*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}"]


def line(entries: Sequence[str], space: str = "") -> str:
    return " & ".join(entries) + r" \\" + space


def math(text: str, bold: bool = False) -> str:
    """`94.28 \\pm 2.12` in mathematics, which `–` is none of."""
    if text == "–":
        return "--"
    return rf"$\mathbf{{{text}}}$" if bold else f"${text}$"


SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "−": r"$-$", "½": r"$\frac12$", "…": r"\dots",
    "–": "--", "<": "$<$", ">": "$>$", **{MARKS[verdict]: sign for verdict, sign in SIGNS.items()},
}  # fmt: skip


def escaped(text: str) -> str:
    """Text in which LaTeX sees nothing but letters."""
    return "".join(SPECIAL.get(character, character) for character in text)
