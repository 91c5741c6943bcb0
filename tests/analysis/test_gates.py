"""The checks of a gate as test cases for continuous integration."""

from __future__ import annotations

from xml.etree import ElementTree

from peira.stats.intervals.means import mean_t


def test_each_check_has_the_time_of_the_trials_that_it_is_about(results, trial):
    found = results([trial(n, 1, took=2.0) for n in range(5)])
    other = results([trial(n, 1, took=1.0) for n in range(5)])
    made = found.gate(min={"match": 0.1}, no_worse_than=[(other, "match", 0.5)])
    assert [check.took for check in made.checks] == [10.0, 15.0]
    assert [case.get("time") for case in list(ElementTree.fromstring(made.junit("s", 10.0)))] == [
        "10.000",
        "15.000",
    ]


def test_a_limit_on_the_side_of_a_tail_is_not_met_by_a_sample_that_lacks_it(results, trial):
    """Of twelve log-normal times, whose mean is 1.65, none happens to be long: t says that 1.5 is held."""
    times = [0.4, 0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.3, 1.5, 1.8, 2.1, 0.6]
    found = results([trial(n, 1, took=took) for n, took in enumerate(times)])
    assert mean_t(times, 0.9).high < 1.4
    (check,) = found.gate(max={"took": 1.5}).checks
    assert not check.met
    assert "the values are few" in check.reason
    assert found.gate(max={"took": 3.0}).met
    (lower,) = found.gate(min={"took": 0.5}).checks
    assert lower.met


def test_no_worse_of_few_times_allows_for_a_tail_that_they_hide(results, trial):
    """Ten runs that take longer by less than the margin, as far as ten can say: some may take far longer."""
    slower = [0.1, 0.2, 0.2, 0.3, 0.3, 0.4, 0.5, 0.6, 0.8, 1.1]
    before = results([trial(n, 1, took=5.0 + n) for n in range(10)])
    after = results([trial(n, 1, took=5.0 + n + more) for n, more in enumerate(slower)])
    assert mean_t(slower, 0.9).high < 0.65
    assert not after.gate(no_worse_than=[(before, "took", 0.7)]).met
    assert after.gate(no_worse_than=[(before, "took", 3.0)]).met
