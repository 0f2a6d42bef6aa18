"""How much memory does rehearsal need? Split MNIST, class learning: 8 runs, about 3 minutes on one core.

python examples/memory.py     prints accuracy against the bytes kept, and draws it to memory.png
"""

from pathlib import Path

import engram as eg
from engram.report.memory import Memory
from engram.report.style import save

scenario = eg.scenario("split-mnist/class")
methods = [
    eg.Adam(),
    eg.OnlineEWC(coef=100),
    eg.SI(coef=600),
    eg.Offline(),
    *(eg.Rehearsal(capacity=images) for images in (20, 100, 500)),
    eg.RehearsalC(capacity=2000),  # as many bytes as 500 images of floats
]
records = [eg.run(scenario, method, net=eg.MLP(400, 400), out="runs/memory") for method in methods]
for record in records:
    kept = sum(record.memory["kept"].values())
    print(f"{record.method:<12} {kept / 1e6:6.2f} MB  {record.average_accuracy:6.2f} %")
print(save(Memory("split-mnist/class").draw(records), Path("memory.png")))
