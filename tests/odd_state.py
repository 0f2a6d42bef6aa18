"""A small network and its training, for tests of state in odd places."""

from helpers import blobs
from torch import nn

import engram as eg
from engram.learning.train import train
from engram.nets._module import recipe_class

SCENARIO = eg.split(blobs(6), kind="class", classes_per_task=2)
TRAINING = eg.Training(epochs=1, batch=16)


class Plain(nn.Module):
    def __init__(self, shape, outputs):
        super().__init__()
        self.flat, self.hidden, self.out = nn.Flatten(), nn.Linear(36, 8), nn.Linear(8, outputs)

    def forward(self, x):
        return self.out(self.hidden(self.flat(x)).relu())


class Tally:
    """A plain object with state, and with a part of the network."""

    def __init__(self, layer):
        self.layer, self.mean, self.inner = layer, 0.0, {"calls": 0}


def learn(method, net, **options):
    return train(SCENARIO.tasks(0), method, recipe_class(net)(), TRAINING, **options)
