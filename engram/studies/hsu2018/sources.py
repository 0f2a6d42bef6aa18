"""Where values come from that presets leave at engram's defaults, because print was made with just those. No torch."""

from __future__ import annotations

from collections.abc import Sequence

from engram.studies.hsu2018.cells import COPIED, TABLES, Protocol

CODE, SCRIPTS, TEXT = "the authors' code", "the authors' scripts", "the paper's text"
COPIED_FROM = "van de Ven & Tolias' code of September 2018"

FIELDS: dict[str, dict[str, str]] = {
    "scenario": {"classes_per_task": SCRIPTS, "order": SCRIPTS, "permutations": SCRIPTS, "identity_first": CODE},
    "method": {
        "label": CODE,
        "estimator": SCRIPTS,
        "decay": CODE,
        "xi": CODE,
        "clamp": CODE,
        "form": CODE,
        "mixing": f"{CODE}; the text has half of each",
        "slots_per_task": "the method's own paper",  # of gem-textbook; gem's is set
        "memory_batch": CODE,
        "temperature": COPIED_FROM,
        "reduction": COPIED_FROM,
        "weighting": COPIED_FROM,
        "generative": COPIED_FROM,
    },
    "net": {"heads": TEXT},
    "training": {"momentum": SCRIPTS, "weight_decay": SCRIPTS, "drop_last": CODE, "reset_optimizer": TEXT},
    "evaluation": {"mask": "engram's choice; without, as in the authors' code, only earlier rows differ"},
}
"""group → field → source."""
OF_THE_QUEUE: dict[str, dict[str, str]] = {
    **FIELDS,
    "scenario": {
        "classes_per_task": TEXT,
        "order": "engram's choice; print's accuracies after one task are of MNIST's 0 and 1",
        "size": TEXT,
    },
    "training": {"reset_optimizer": TEXT},
}
"""The same of the long queue, whose scripts were never published."""


def as_in_print(scenario: str, methods: Sequence[str], protocol: Protocol) -> dict[str, dict[str, str]]:
    """Sources of values that a published setting leaves at their defaults; none for a scenario that print has not."""
    queue = scenario.startswith("long-queue")
    printed = queue or any(scenario in columns.values() for _, columns in TABLES.values())
    found = {group: dict(fields) if printed else {} for group, fields in (OF_THE_QUEUE if queue else FIELDS).items()}
    if printed and not queue and protocol == "own" and any(method in COPIED for method in methods):
        for group in ("scenario", "net", "training", "evaluation"):
            found[group] = dict.fromkeys(found[group], COPIED_FROM)
    if printed:
        found["method"] |= {
            f"{method}.{field}": source for method in methods for field, source in FIELDS["method"].items()
        }
    return found
