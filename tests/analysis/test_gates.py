"""The checks of a gate as test cases for continuous integration."""

from __future__ import annotations

from xml.etree import ElementTree


def test_each_check_has_the_time_of_the_trials_that_it_is_about(results, trial):
    found = results([trial(n, 1, took=2.0) for n in range(5)])
    other = results([trial(n, 1, took=1.0) for n in range(5)])
    made = found.gate(min={"match": 0.1}, no_worse_than=[(other, "match", 0.5)])
    assert [check.took for check in made.checks] == [10.0, 15.0]
    assert [case.get("time") for case in list(ElementTree.fromstring(made.junit("s", 10.0)))] == [
        "10.000",
        "15.000",
    ]
