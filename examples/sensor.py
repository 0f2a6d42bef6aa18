"""Your own arrays: three sensors, each brighter than the last, on which two patterns swap their meaning. 10 seconds.

python examples/sensor.py     measures which kind of learning this is, and shows which methods help
"""

import numpy as np
from numpy.typing import NDArray

import engram as eg

rng = np.random.default_rng(0)
patterns = rng.uniform(0, 120, (2, 12, 12))


def photographs(each: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Classes 0 and 1 are from the first sensor, 2 and 3 from the second, 4 and 5 from the third."""
    classes = np.repeat(np.arange(6), each)
    sensor = classes // 2
    clean = patterns[(classes + sensor) % 2] + 50 * sensor[:, None, None]
    return np.clip(clean + rng.normal(0, 40, clean.shape), 0, 255).astype(np.uint8), classes


images = eg.Images(*photographs(300), *photographs(100), name="sensors")
scenario = eg.split(images, classes_per_task=2, kind="domain", normalize="train")

parts = [images.y_train // 2 == sensor for sensor in range(3)]
found = eg.categorize([(images.x_train[part], images.y_train[part] % 2) for part in parts], heads="single")
print(f"{found.kind} learning: P(X) {found.evidence['reasons']['P(X)']}")

for method in (eg.Adam(), eg.Adagrad(), eg.OnlineEWC(coef=100), eg.Rehearsal(capacity=60), eg.Offline()):
    training = eg.Training(epochs=5, batch=32, optimizer=method.optimizer, lr=0.003)
    record = eg.run(scenario, method, net=eg.MLP(64), training=training)
    print(f"{record.method:<12} {record.average_accuracy:6.2f} %  (floor {scenario.tasks(0).floor:.0f} %)")
