"""A metric of your own: the accuracy on the task that suffered most.

engram table runs --metric worst-task --file examples/own_metric.py
"""

import engram as eg


class WorstTask(eg.Metric):
    """The lowest accuracy of any task, after the last one."""

    name = "worst-task"
    title = "accuracy on the worst task"

    def of(self, record: eg.Record) -> float | None:
        return min(record.accuracy[-1]) if record.accuracy else None
