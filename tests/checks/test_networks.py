"""A few methods with a user's networks: all of them are checked by `make check-all`."""

import pytest

from engram.checks.networks import NETWORKS, check_pairs


@pytest.mark.parametrize("method", ["ewc", "er", "lwf", "dgr"])
def test_each_network_is_trained_or_refused_in_words(method):
    facts = list(check_pairs([method]))
    assert len(facts) == len(NETWORKS)
    assert [fact for fact in facts if fact.holds is False] == []
    if method == "dgr":
        assert all(fact.holds is None and "MLP" in fact.detail for fact in facts)
    else:
        assert all(fact.holds for fact in facts)
