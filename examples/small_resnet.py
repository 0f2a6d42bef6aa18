"""A residual network of your own, as a plain PyTorch module.

engram run split-cifar10/class er --file examples/small_resnet.py --net small-resnet --width 4 --augment crop4 flip
engram check small-resnet --file examples/small_resnet.py
"""

from torch import Tensor, nn
from torch.nn.functional import relu


class Block(nn.Module):
    """Two convolutions and a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm = nn.BatchNorm2d(outputs)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:  # (n, inputs, h, w) → (n, outputs, h / stride, w / stride)
        out = relu(self.norm(self.first(x)))
        return relu(self.norm2(self.second(out)) + self.shortcut(x))


class SmallResNet(nn.Module):
    """Three blocks, the mean over places, and one output layer."""

    def __init__(self, shape: tuple[int, ...], outputs: int, width: int = 8) -> None:
        super().__init__()
        self.body = nn.Sequential(
            Block(shape[0], width, 1),
            Block(width, 2 * width, 2),
            Block(2 * width, 4 * width, 2),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )
        self.head = nn.Linear(4 * width, outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x))
