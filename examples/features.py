"""Features of a network as a dataset: a small convolutional network learns MNIST, and its features of Fashion-MNIST are
learned class by class, by a linear layer and by an MLP. `python examples/features.py` prints a table."""

import time

import torch
from torch.nn.functional import cross_entropy

import engram as eg
from engram.data.images import Images


def train_network(images: Images, steps: int = 300) -> torch.nn.Module:
    """A convolutional network that has learned all classes of a dataset at once."""
    torch.manual_seed(0)
    net = eg.ConvNet(width=16).build(images.shape, images.n_classes)
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    first, _ = eg.split(images, kind="iid", classes_per_task=images.n_classes // 2).tasks(seed=0)  # a random half
    loader = first.loader("train", batch=128)
    left = steps
    while left > 0:
        for x, y, _ in loader:
            optimizer.zero_grad()
            cross_entropy(net(x), y).backward()
            optimizer.step()
            left -= 1
            if not left:
                break
    return net.eval()


@torch.no_grad()
def embed(net: torch.nn.Module, images: Images) -> eg.Arrays:
    """The input of the network's output layer, for every image: 32-bit floats."""
    found: list[torch.Tensor] = []
    layer = net.get_submodule(net.output_layer)
    hook = layer.register_forward_pre_hook(lambda _, given: found.append(given[0]))
    parts = []
    for pixels in (images.x_train, images.x_test):
        found.clear()
        for piece in torch.tensor(pixels).split(1000):
            net(piece.float().div(255).view(len(piece), *images.shape))
        parts.append(torch.cat(found).numpy())
    hook.remove()
    return eg.Arrays(parts[0], images.y_train, parts[1], images.y_test, images.classes, name=f"{images.name}-features")


def main(seeds: int = 10) -> None:
    features = embed(train_network(eg.images("mnist")), eg.images("fashion-mnist"))
    print(features)
    scenario = eg.split(features, kind="class", normalize="train")
    start = time.perf_counter()
    for net in (eg.Linear(), eg.MLP(100)):
        for method in (eg.Adam(), eg.Rehearsal(capacity=500)):
            records = [
                eg.run(scenario, method, net=net, training=eg.Training(epochs=1), seed=seed) for seed in range(seeds)
            ]
            mean = sum(record.average_accuracy for record in records) / seeds
            print(f"{type(net).__name__:<8} {type(method).__name__:<10} {mean:.2f} over {seeds} seeds")
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
