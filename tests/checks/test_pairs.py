"""A few methods with a user's networks and on all streams: all of them are checked by `make check-all`."""

import pytest

from engram.checks.pairs import NETWORKS, STREAMS, check_networks, check_streams


@pytest.mark.parametrize("method", ["ewc", "er", "lwf", "dgr"])
def test_each_network_is_trained_or_refused_in_words(method):
    facts = list(check_networks([method]))
    assert len(facts) == len(NETWORKS)
    assert [fact for fact in facts if fact.holds is False] == []
    if method == "dgr":
        assert all(fact.holds is None and "MLP" in fact.detail for fact in facts)
    else:
        assert all(fact.holds for fact in facts)


@pytest.mark.parametrize("method", ["adagrad", "si", "der-pp", "gdumb"])
def test_each_stream_is_trained_on_or_refused_in_words(method):
    facts = {fact.name.partition(", ")[2]: fact for fact in check_streams([method])}
    assert set(facts) == set(STREAMS)
    assert [fact for fact in facts.values() if fact.holds is False] == []
    refused = {stream for stream, fact in facts.items() if fact.holds is None}
    assert refused == ({"blurry", "mnist-360"} if method in ("si", "gdumb") else set())
    assert all("boundaries" in facts[stream].detail for stream in refused)
