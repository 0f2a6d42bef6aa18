"""Notes: where the authors' code departs from the paper, from a method's name, or from what one would expect. No torch.

engram computes what the authors' code computed, except where a note says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

PENALTIES = ("l2", "ewc", "online-ewc", "si", "mas")
FISHER = ("ewc", "online-ewc")
QUEUE: Mapping[str, tuple[str, ...]] = {"table5": (), "table6": ()}
TABLES_OF_METHODS: Mapping[str, tuple[str, ...]] = {"table2": (), "table3": (), "table4": ()}


@dataclass(frozen=True)
class Note:
    """What to know about some cells, or about a whole table."""

    text: str
    rows: tuple[str, ...] = ()
    """Of these rows; none: of the table as a whole, under which it stands."""
    at: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: TABLES_OF_METHODS)
    """table → columns; no columns: all of them."""


NOTES: tuple[Note, ...] = (
    Note("trains on its memory as naive rehearsal does, and turns the gradient (twin: textbook)", ("gem",)),
    Note("two slots of the memory a task, as in the code of January 2019 (twin: one-slot)", ("gem",)),
    Note("plain SGD at a rate of its own, where the paper's text has Adam as the default", ("gem",)),
    Note(
        "Fisher information of the predicted label, image by image",
        FISHER, {"table2": (), "table3": ("task", "class"), "table4": ()},
    ),
    Note(
        "squared gradients of mini-batches as Fisher information, in this column only (twin: per-sample)",
        FISHER, {"table3": ("domain",)},
    ),
    Note("no factor ½ in the penalty: Kirkpatrick's lambda is twice the weight", FISHER),
    Note("nothing of the old Fisher information decays", ("online-ewc",)),
    Note("damping of 0.1, and negative contributions are kept", ("si",)),
    Note("gradients are averaged over a batch before their size is taken, and over the outputs", ("mas",)),
    Note("also holds the outputs of classes to come at their initial values", ("l2",)),
    Note(
        "a weight of 100 holds nearly everything: what it scores above the floor comes from not learning",
        ("l2",), {"table2": ("class",), "table4": ("split/unknown", "split/known")},
    ),
    Note(
        "the weight is 0, so this is plain Adam (twin of Table 3: searched)",
        ("l2",), {"table3": ("class",), "table4": ("permuted/unknown", "permuted/known")},
    ),
    Note(
        "the weight of the column with unknown classes, for want of one in print (twin: searched)",
        PENALTIES, {"table4": ("split/known", "permuted/known")},
    ),
    Note(
        "new images and the repeated buffer in one shuffled stream, so that an epoch has up to twice the steps "
        "(twin of Tables 2 and 3, the text's 64 and 64: half-and-half)",
        ("rehearsal", "rehearsal-c"),
    ),
    Note("the authors' code only takes more images, here the pixels are stored in 8 bits", ("rehearsal-c",)),
    Note(
        "a learning rate of 0.01 as in the script, where the text says 0.001 (twin: text)",
        ("sgd",), {"table3": ("task",)},
    ),
    Note(
        "heads are slices of one layer, where the authors' are layers of their own: Adam's counter of a new head runs "
        "on from the start",
        ("adam", "rehearsal", "rehearsal-c"), {"table2": ("task",), "table3": ("task",)},
    ),
    Note("print is the accuracy over all test images, ours the mean over tasks", ("offline",)),
    Note(
        "copied by the paper from van de Ven & Tolias (2018), who trained longer, on inputs without normalisation",
        ("lwf", "dgr", "rtf"),
    ),
    Note(
        "Print's weights of penalties were chosen by test accuracy; ours are print's.",
        at={"table2": (), "table3": ()},
    ),
    Note(
        "Print's weights of penalties were chosen by test accuracy; ours are print's of the columns with unknown "
        "classes.",
        at={"table4": ()},
    ),
    Note("Print's runs had no seeds (but those of the copied rows); ours are seeds 0, 1, 2, …"),
    Note("Padded pixels are −0.363 after normalisation, as in print: each is one more bias."),
    Note(
        "In class learning Adam's moments of outputs to come run on from the start, as in print, so that the first "
        "steps of a new class are longer."
    ),
    Note(
        "Best and worst are the weights among 0.01, 0.1, 1, 10, 50 and 100 with the highest and the lowest final "
        "average over seeds, by test accuracy, as in print.",
        at=QUEUE,
    ),
    Note(
        "The order of tasks, grey values, resizing, normalisation, SI's damping and the Fisher's labels are engram's "
        "choices: the paper does not tell them, and its authors published no code of this experiment.",
        at=QUEUE,
    ),
    Note(
        "The paper's text has one optimiser for all tasks (--protocol common). SI and online EWC come nearer to print "
        "with a new one for each task (--protocol own); Adam and Adagrad have one in both.",
        at=QUEUE,
    ),
)  # fmt: skip

MISSING = "no runs are recorded"
SUB_SAMPLED = "sub-sampled: a step looks at 256 images of the memory, not at all of them"
SPREAD = "± is the population deviation over n runs; in print over 10 runs."
SPREAD_OF_QUEUE = "± is the population deviation over n runs; print has one run, and 5 points count as agreement."
SPREAD_OF_COPIED = (
    "The ± of LwF, DGR and RtF in print is a standard error of the mean over a number of runs that is not said "
    "(20 are assumed); ours is a deviation as in the other rows."
)


def notes(table: str, row: str, column: str) -> list[str]:
    """Those of a cell."""
    return [n.text for n in NOTES if row in n.rows and table in n.at and (not n.at[table] or column in n.at[table])]


def table_notes(table: str) -> list[str]:
    """Those of a table as a whole."""
    return [note.text for note in NOTES if not note.rows and table in note.at]
