"""How the published files of each dataset become arrays."""

from __future__ import annotations

import numpy as np

from engram.data.files import Paths
from engram.data.formats import LabelledArrays, read_cifar, read_idx, read_json_labels, read_strip, read_svhn


def mnist(paths: Paths) -> LabelledArrays:
    x_train, y_train, x_test, y_test = map(read_idx, paths.values())
    return LabelledArrays(x_train, y_train, x_test, y_test)


def emnist(paths: Paths) -> LabelledArrays:
    x_train, y_train, x_test, y_test = map(read_idx, paths.values())
    upright = [np.ascontiguousarray(x.swapaxes(1, 2)) for x in (x_train, x_test)]  # published transposed
    return LabelledArrays(upright[0], y_train - 1, upright[1], y_test - 1)  # and with labels 1 to 26


def svhn(paths: Paths) -> LabelledArrays:
    train, test = map(read_svhn, paths.values())
    return LabelledArrays(*train, *test)


def cifar10(paths: Paths) -> LabelledArrays:
    (path,) = paths.values()
    folder = "cifar-10-batches-bin"
    train = [f"{folder}/data_batch_{i}.bin" for i in range(1, 6)]
    return read_cifar(path, train, [f"{folder}/test_batch.bin"], f"{folder}/batches.meta.txt", 1, 10)


def cifar10_strips(paths: Paths) -> LabelledArrays:
    *train, test, y_train, y_test = paths.values()
    x_train = np.concatenate([read_strip(path) for path in train])
    return LabelledArrays(x_train, read_json_labels(y_train), read_strip(test), read_json_labels(y_test))


def cifar100(paths: Paths) -> LabelledArrays:
    (path,) = paths.values()
    folder = "cifar-100-binary"
    names = f"{folder}/fine_label_names.txt"
    return read_cifar(path, [f"{folder}/train.bin"], [f"{folder}/test.bin"], names, 2, 100)
