"""A top-level name means one thing in the whole package."""

from duplicate_names import defined_names, duplicate_names, report

ALLOWED = 10


def test_few_names_are_defined_in_more_than_one_module():
    found = duplicate_names()
    assert len(found) <= ALLOWED, f"{len(found)} names are defined more than once:\n{report(found)}"


def test_names_are_found_in_every_form(tmp_path):
    text = "import os\nfrom re import match\nA = 1\nB: int = 2\nC, D = 3, 4\n__all__ = []\n"
    text += "def e(): f = 1\nclass G: h = 1\n"
    assert defined_names(text) == {"A", "B", "C", "D", "e", "G"}
    (tmp_path / "one.py").write_text(text)
    (tmp_path / "two.py").write_text("from one import A\nG = 1\n")
    assert duplicate_names(tmp_path) == {"G": ["one.py", "two.py"]}
