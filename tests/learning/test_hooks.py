"""Mistakes in a method's class are refused in words when it is made."""

from dataclasses import dataclass

import pytest
from helpers import Run, blobs

import engram as eg
from engram.core.registry import METHODS
from engram.learning.combine import combine


def method_with(name: str, function=lambda self, learner, task: None):
    return type("Mine", (eg.Method,), {name: function})


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("end_tasks", "end_task"),
        ("endtask", "end_task"),
        ("begin_tasks", "begin_task"),
        ("predict", "scores"),
        ("score", "scores"),
        ("before_task", "begin_task"),
        ("after_task", "end_task"),
        ("adjust_gradient", "adjust_gradients"),
        ("after_steps", "after_step"),
        ("penalty", None),
        ("importance", None),
        ("_end_tasks", None),
    ],
)
def test_a_name_that_nearly_is_a_hook_is_refused(name, meant):
    if meant is None:
        method_with(name)()
        return
    with pytest.raises(TypeError, match=f"Mine.{name} is not a hook .*did you mean {meant}\\?"):
        method_with(name)()


def test_after_step_without_the_batch_is_refused_with_the_change_to_make():
    class Old(eg.Method):
        def after_step(self, learner):
            pass

    with pytest.raises(TypeError, match=r"since version 0\.2; write def after_step\(self, learner, batch\)"):
        Old()


@pytest.mark.parametrize(
    ("name", "function"),
    [("loss", lambda self, batch: 0), ("end_task", lambda self, learner: 0), ("scores", lambda self, x: 0)],
)
def test_a_hook_that_cannot_be_called_is_refused(name, function):
    with pytest.raises(TypeError, match=f"Mine.{name}.* cannot be called: .*write def {name}\\(self"):
        method_with(name, function)()


def test_a_hook_may_have_more_arguments_or_other_names():
    method_with("loss", lambda self, one, two, scale=2: 0)()
    method_with("end_task", lambda self, *arguments: 0)()


def test_a_mistake_is_found_although_the_constructor_is_its_own():
    class Own(eg.Method):
        def __init__(self):
            pass

        def end_tasks(self, learner, task):
            pass

    tasks = eg.split(blobs(4), kind="class").deal(0)
    with pytest.raises(TypeError, match="did you mean end_task"):
        Run(tasks, Own)
    with pytest.raises(TypeError, match="did you mean end_task"):
        Run(tasks, lambda: combine([Own(), eg.L2()]))


@pytest.mark.parametrize("name", ["kept", "working", "needs"])
def test_an_annotated_declaration_is_refused_since_it_would_be_a_flag(name):
    @dataclass
    class Annotated(eg.Method):
        pass

    annotated = dataclass(type("Mine", (eg.Method,), {"__annotations__": {name: tuple}, name: ("buffer",)}))
    with pytest.raises(TypeError, match=rf"Mine\.{name} has an annotation .*write it without: {name} = \('buffer',\)"):
        annotated()
    Annotated()


def test_other_slips_in_declarations():
    with pytest.raises(TypeError, match=r"write a tuple: kept = \('buffer',\)"):
        type("Mine", (eg.Method,), {"kept": "buffer"})()
    with pytest.raises(TypeError, match="needs 'task identities', which is unknown; choose from boundaries"):
        type("Mine", (eg.Method,), {"needs": frozenset({"task identities"})})()
    with pytest.raises(TypeError, match=r'turn has another name .*gradient_stage = "read" for turn 0'):
        type("Mine", (eg.Method,), {"turn": 0})()
    with pytest.raises(TypeError, match="gradient_stage 'last' is unknown; choose from read, add, project"):
        type("Mine", (eg.Method,), {"gradient_stage": "last"})()


def test_built_in_methods_pass():
    assert len([cls() for cls in METHODS.values()]) >= 16
