"""An optimiser's own fields: part of the spec if they are not the default, and refused if it has none such."""

import pytest
import torch
from helpers import blobs

import engram as eg


def test_they_reach_torchs_optimiser_and_its_steps():
    """A step of adadelta with rho 0.5 and of adam with eps 0.1, against torch's own."""
    for name, options, cls in (
        ("adadelta", {"rho": 0.5, "eps": 1e-3}, torch.optim.Adadelta),
        ("adam", {"eps": 0.1, "amsgrad": True}, torch.optim.Adam),
        ("rprop", {"etas": (0.4, 1.3)}, torch.optim.Rprop),
    ):
        training = eg.Training(optimizer=name, lr=0.1, optimizer_options=options)
        mine, theirs = torch.ones(5), torch.ones(5)
        ours, plain = training.new_optimizer([mine]), cls([theirs], lr=0.1, **options)
        for i in range(3):
            for p in (mine, theirs):
                p.grad = torch.linspace(-1, 1, 5) * (i - 1.5)
            ours.step()
            plain.step()
        torch.testing.assert_close(mine, theirs)
        assert not torch.equal(mine, torch.ones(5))


def test_a_default_moves_no_key_and_another_value_does():
    def key(**values):
        return eg.Spec(eg.split(blobs(4)), eg.Adam(), training=eg.Training(**values)).key

    assert key() == key(optimizer_options={"eps": 1e-8}) == key(optimizer_options=("eps=1e-8", "amsgrad=false"))
    assert key() != key(optimizer_options={"eps": 1e-7}) == key(optimizer_options=("eps=1e-07",))
    assert eg.Training(optimizer_options=["amsgrad=True", "eps=0.5"]).optimizer_options == ("amsgrad=true", "eps=0.5")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["epsilon=1"], "optimizer option 'epsilon' is unknown; did you mean eps"),
        (["eps=small"], "eps=small: give a number, true or false"),
        (["eps"], "give a number, true or false"),
        (["eps=true"], "eps of adam is of another type, such as 1e-08"),
        (["amsgrad=1"], "amsgrad of adam is of another type, such as False"),
        (["eps=-1"], "Invalid epsilon value"),
        (["betas=0.9,0.9"], "betas is a value of its own; give --betas"),
        (["fused=true"], "optimizer option 'fused' is unknown"),
        (["eps=1", "eps=2"], "a field is given twice"),
    ],
)
def test_what_it_has_not_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        eg.Training(optimizer_options=options)
