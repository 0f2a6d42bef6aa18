"""Records for tests of the page, with numbers that can be checked by hand."""

from typing import Any

from setting_records import run_of, spec_of

from engram.report.page.settings import setting_id
from engram.runs.defaults import default_setting
from engram.runs.records import Record
from engram.studies.hsu2018.queue import queue_setting

HOSTILE = "<img src=x onerror=\"document.title='hacked'\">"
HOSTILE_SCENARIO = "split-</script><script>document.title='hacked'</script>/class"


def usual_id(scenario: str, method: str, **fields: Any) -> str:
    """The page's name for the default setting, with some fields of the method changed."""
    changes = {f"method.{name}": value for name, value in fields.items()}
    return setting_id(default_setting(scenario, method).with_values(changes))


def spec(method: str = "adam", seed: int = 0, scenario: str = "class", **fields: Any) -> dict[str, Any]:
    return {
        "scenario": {"make": "split", "images": {"mnist": "sha256:0"}, "kind": scenario, "held_out": 0.0},
        "method": [{"name": method, **fields}],
        "net": {"name": "mlp", "hidden": [400, 400], "heads": "random"},
        "training": {"epochs": 4, "lr": 0.001, "drop_last": False},
        "evaluation": {"mask": True, "forward_transfer": False, "evaluate_every": 0},
        "seed": seed,
        "threads": 1,
        "device": "cpu",
    }


def record(
    method: str = "adam",
    seed: int = 0,
    score: float = 50.0,
    kind: str = "class",
    scenario: str = "",
    published: bool = False,
    fields: dict[str, Any] | None = None,
    **changes: Any,
) -> Record:
    """Two tasks: 90 on the first when it is learned, `score` on both at the end; so 90 − score is forgotten.

    `published`: with the defaults of its scenario and method, but for `fields`.
    """
    name = scenario or f"split-mnist/{kind}"
    values = {
        "key": f"{name} {method} {fields} {seed}",
        "scenario": name,
        "method": method,
        "seed": seed,
        "spec": spec(method, seed, kind, **(fields or {})),
        "status": "done",
        "accuracy": [[90.0], [score, score]],
        "average_accuracy": score,
        "forgetting": 90.0 - score,
        "steps": 1884,
        "seconds": 10.0,
        "memory": {"kept": {}, "working": {}},
        "environment": {"engram": "0.1.0", "torch": "2.13.0", "cpu": "a processor", "peak_mb": 500 + seed},
    }
    values |= {"key": f"{name} {changes['spec']}"} if "spec" in changes else {}
    if published:
        changed = {f"method.{field}": value for field, value in (fields or {}).items()}
        values["spec"] = spec_of(default_setting(name, method).with_values(changed), seed)
    return Record(**{**values, **changes})


def queued(
    method: str, coef: float | None, seed: int, last: float, scenario: str = "long-queue/task", reset: bool = True
) -> Record:
    """78 tasks: 100 on each until the last, then `last`."""
    accuracy = [[100.0] * i for i in range(1, 78)] + [[last] * 78]
    setting = queue_setting(scenario, method, coef, "mlp", reset=reset if coef else None)
    return run_of(setting, seed, last, accuracy=accuracy)
