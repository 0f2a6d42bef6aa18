r"""A table as LaTeX, in the layout of the paper if it was published. Compiles with booktabs alone."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from engram.report.footer import VERDICT_MARKS
from engram.report.layout import ABSENT, Document, Entry, TableRow, end_sentence

PREAMBLE = r"""% Needs \usepackage{booktabs}; colortbl makes the thin rules grey, amssymb the check marks prettier.
\providecommand{\checkmark}{\ensuremath{\surd}}
\ifdefined\arrayrulecolor\else\def\arrayrulecolor[#1]#2{}\fi"""
THIN_RULE = r"\arrayrulecolor[gray]{0.7}\specialrule{0.3pt}{1pt}{1pt}\arrayrulecolor[gray]{0}"
VERDICT_SIGNS = {"agrees": "$=$", "higher": r"$\uparrow$", "lower": r"$\downarrow$", "missing": "--"}
WITH_VERDICTS = (
    r" Below each of our numbers: the published one, the number of our runs in brackets, and whether ours agrees "
    r"($=$), is higher ($\uparrow$), lower ($\downarrow$) or missing (--)."
)
WITH_TESTS = " Below each mean: the number of runs in brackets{}."
BEGIN = (r"\begin{table}", r"\centering\footnotesize\setlength{\tabcolsep}{3pt}")
END = (r"\bottomrule", r"\end{tabular}", r"\end{table}")


def write_latex(document: Document) -> str:
    """The table; variants and notes follow."""
    lines = [PREAMBLE]
    if document.sections:
        lines += latex_table(document)
    if document.variants:
        lines += latex_variants(document)
    # after the floats: with all these lines they would not fit on a page
    below = [escape_latex(text) + r"\par" for text in (*document.below, *document.below_variants)]
    return "\n".join([*lines, "", r"{\scriptsize", *below, "}"]) + "\n"


def latex_table(document: Document) -> list[str]:
    width = len(document.columns) + document.memory + len(document.extra)
    lines = [
        *BEGIN,
        rf"\caption{{{escape_latex(end_sentence(document.title))} {caption(document)}}}",
        r"\begin{tabular}{l" + "c" * width + "}",
        r"\toprule",
        *head_lines(document),
    ]
    for section in document.sections:
        lines.append(r"\midrule")
        if section.title:
            lines.append(rf"\multicolumn{{{1 + width}}}{{l}}{{\textit{{{escape_latex(section.title)}}}}} \\")
        for before, row in zip((None, *section.rows), section.rows, strict=False):
            if document.memory and row.remembers and before and not before.remembers:
                lines.append(THIN_RULE)
            lines += row_lines(row, document.memory)
    return [*lines, *END]


def caption(document: Document) -> str:
    tested = any(entry.p for row in document.rows for entry in row.entries)
    more = WITH_VERDICTS if document.published else WITH_TESTS.format(" and p against the baseline" if tested else "")
    return escape_latex(document.legend) + more


def head_lines(document: Document) -> list[str]:
    """One or two lines of headings, with rules between them if columns share one."""
    front = [document.first[0], *(["Memory"] if document.memory else [])]
    front_below = [document.first[1], *("" for _ in front[1:])]
    back, empty = list(document.extra), [""] * len(document.extra)
    headings = document.headings
    if not any(below for _, below in headings):
        # the words of a heading in two lines, or three columns would not fit on a page
        words = [title.partition(" ") for title, _ in headings]
        upper = [*front, *(first for first, _, _ in words), *back]
        lower = [*front_below, *(rest for _, _, rest in words), *empty]
        return [latex_row(map(escape_latex, line)) for line in (upper, lower) if any(line)]
    spans = [rf"\multicolumn{{{len(below) or 1}}}{{c}}{{{escape_latex(title)}}}" for title, below in headings]
    rules, at = [], len(front) + 1
    for _, below in headings:
        if below:
            rules.append(rf"\cmidrule(lr){{{at}-{at + len(below) - 1}}}")
        at += len(below) or 1
    parts = [part for _, below in headings for part in below or ("",)]
    return [
        latex_row([*map(escape_latex, front), *spans, *back]),
        "".join(rules),
        latex_row(map(escape_latex, [*front_below, *parts, *empty])),
    ]


def row_lines(row: TableRow, memory: bool) -> list[str]:
    """Our means, and below them in a small size what there is to say of each."""
    mark = [r"\checkmark" if row.remembers else ""] if memory else []
    means = [math(entry.value, bold=entry.bold, star=entry.differs) for entry in row.entries]
    small = [rf"{{\tiny {small_text(entry)}}}" for entry in row.entries]
    extra = list(map(escape_latex, row.extra))
    return [
        latex_row([escape_latex(row.title), *mark, *means, *extra], "[-3pt]"),
        latex_row(["", *("" for _ in mark), *small, *("" for _ in extra)], "[1pt]"),
    ]


def small_text(entry: Entry) -> str:
    """`$93.46 \\pm 2.01$ (10) $=$`, or `(10) p 0.004`; nothing if there is no such cell"""
    if not entry.value:
        return ""
    if entry.published:
        return f"{math(entry.published)} ({entry.n}) {VERDICT_SIGNS.get(entry.verdict or '', '')}".rstrip()
    return f"({entry.n}) {escape_latex(entry.p)}".rstrip()


def latex_variants(document: Document) -> list[str]:
    lines = [
        *BEGIN,
        r"\caption{Variants: rows with some values changed; not cells of the table.}",
        r"\begin{tabular}{llccl}",
        r"\toprule",
        latex_row(["Variant", "Column", "Variant's", "Row's", "Difference"]),
        r"\midrule",
    ]
    for line in document.variants:
        value = math(line.value) + (f" ($n={line.n}$)" if line.n else "")
        names = [escape_latex(line.name), escape_latex(line.column)]
        lines.append(latex_row([*names, value, *map(escape_latex, (line.of_row, line.difference))]))
    return [*lines, *END]


def latex_row(entries: Sequence[str] | map[str], space: str = "") -> str:
    return " & ".join(entries) + r" \\" + space


def math(text: str, bold: bool = False, star: bool = False) -> str:
    r"""`$94.28 \pm 2.12$`; a dash is not mathematics."""
    if text in (ABSENT, ""):
        return "--" if text else ""
    inside = text.replace("±", r"\pm")
    inside = rf"\mathbf{{{inside}}}" if bold else inside
    return f"${inside}{'^{*}' if star else ''}$"


SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "−": r"$-$", "½": r"$\frac12$",
    "…": r"\dots{}", "–": "--", "—": "---", "<": "$<$", ">": "$>$", "|": "$|$", "×": r"$\times$", "≤": r"$\leq$",
    "≥": r"$\geq$", "≈": r"$\approx$", "→": r"$\to$", "·": r"$\cdot$", "²": "$^2$", "³": "$^3$", "µ": r"$\mu$",
    "∞": r"$\infty$", "“": "``", "”": "''", "‘": "`", "’": "'", "ß": r"\ss{}", "ø": r"\o{}", "Ø": r"\O{}",
    "ł": r"\l{}", "Ł": r"\L{}", "æ": r"\ae{}", "Æ": r"\AE{}", "ı": r"\i{}", "°": r"$^\circ$",
    "[": "{[}", "]": "{]}", "*": "{*}",  # after a line's end these would be arguments of it
    "✗": r"$\times$", **{VERDICT_MARKS[verdict]: sign for verdict, sign in VERDICT_SIGNS.items()},
}  # fmt: skip
ACCENTS = {
    "\u0300": "`", "\u0301": "'", "\u0302": "^", "\u0303": "~", "\u0308": '"', "\u0327": "c", "\u030c": "v",
    "\u030a": "r", "\u0304": "=", "\u0306": "u", "\u0307": ".", "\u030b": "H", "\u0328": "k",
}  # fmt: skip
GREEK = {
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "epsilon", "ζ": "zeta", "η": "eta", "θ": "theta",
    "κ": "kappa", "λ": "lambda", "μ": "mu", "ν": "nu", "ξ": "xi", "π": "pi", "ρ": "rho", "σ": "sigma", "τ": "tau",
    "φ": "phi", "χ": "chi", "ψ": "psi", "ω": "omega", "Γ": "Gamma", "Δ": "Delta", "Θ": "Theta", "Λ": "Lambda",
    "Σ": "Sigma", "Φ": "Phi", "Ψ": "Psi", "Ω": "Omega",
}  # fmt: skip


def escape_latex(text: str) -> str:
    """Text in which LaTeX sees nothing but letters, in ASCII: what it could not set is named by its code point."""
    found = []
    for here, after in zip(text, f"{text[1:]} ", strict=False):
        found.append("-{}" if here == after == "-" else escape_character(here))
    return "".join(found)


def escape_character(character: str) -> str:
    if character in SPECIAL or character.isascii():
        return SPECIAL.get(character, character)
    if character in GREEK:
        return rf"$\{GREEK[character]}$"
    base, *marks = list(unicodedata.normalize("NFKD", character))
    if base.isascii() and len(marks) == 1 and marks[0] in ACCENTS:
        return rf"\{ACCENTS[marks[0]]}{{{base}}}"
    if base.isascii() and all(mark.isascii() for mark in marks):  # a ligature, a no-break space
        return escape_latex("".join([base, *marks]))
    return f"(U+{ord(character):04X})"
