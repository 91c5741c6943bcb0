"""Identities as they are, written down: a release that changed one would lose every stored result.

If a test here fails, stored work would be done again. That may be right, once in a while, and is then
said in the changelog.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from peira.core.context import SeenCase, Trial, enter
from peira.core.ids import compose, digest, seed_of
from peira.core.log.events import Result
from peira.core.steps import step
from peira.evaluators import exact
from peira.plan.expansion import expand
from peira.plan.score_ids import ScoreIds
from peira.spec.study_files import load
from peira.testing import MemoryChannel

STUDY = '''
from peira import Case, exact, study

GREETING = "Good day"

def greet(name):
    return f"{GREETING}, {name}"

@study(
    cases=[("Ada", "Good day, Ada"), Case({"name": "Blaise", "born": 1623.0}, id="b", slice="x")],
    factors={"style": ["plain", None], "heat": [0, 0.5]},
    evaluators=[exact()],
    repeats=2,
    seed=7,
)
def answer(case, style, heat):
    """What is said here does not count."""
    return greet(case.input)
'''


@pytest.mark.parametrize(
    ("value", "known"),
    [
        (None, "74234e98afe7498fb5daf1f36ac2d78acc339464f950703b8c019892f982b90b"),
        ("", "12ae32cb1ec02d01eda3581b127c1fee3b0dc53572ed6baf239721a03d82e126"),
        ("Zürich 😀", "b3aa8a2e22b6edf3a93cc2cf37cb8d806f7d97330875659790188ea8fae58e9d"),
        (1, "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b"),
        (-0.5, "1b07b0cffa0b3f596b5e048b0115168886cc5183dd518655b5515ee5dddac6d1"),
        (1e30, "7412d94bdf30adfa71080e057185e1a8de86e2e99a8350b011df8ac41ed5a6e3"),
        ([1, True, None, "a"], "ddedcfb0de8050392620fc2060119b45467a00a19a2ac4be677d063a361837cd"),
        (
            {"b": [1.5, {}], "a": {"é": "\n"}},
            "d2751c67647cd52d0b585c5faf8dc43b288d5c3178e48659204da70c420be00f",
        ),
    ],
)
def test_digests_of_values(value: object, known: str) -> None:
    assert digest(value) == known


def test_composite_ids_and_seeds() -> None:
    assert (
        compose("trial", digest("agent"), 1)
        == "26a284bfaab82ce79eb430415fc95d89462bc84fe9fc6c9bd67b567259c07e0a"
    )
    assert seed_of(digest("trial")) == 6066114399698784


def test_the_identity_of_trials_and_scores(tmp_path: Path) -> None:
    """All that a trial's and a score's identity is made of, the agent's code with it."""
    (tmp_path / "golden.py").write_text(STUDY)
    plan = expand(load(tmp_path / "golden.py"), generation=3)
    layout = plan.layout
    ids = [layout.trial_id(place) for place in layout.places()]
    assert len(ids) == 16
    assert ids[0] == "0cc079c7d35097f03c67e24a85e242aeb85add9edcd0a4cd600db9495710c8a1"
    assert digest(ids) == "73b1ae18d2d64c298dd20bd828a6586441da8ea7cd116329d68a489d6ee8ee83"
    judging = ScoreIds(plan.common, {d: e.takes for d, e in plan.evaluators.items()})
    said = Result(output=msgspec.Raw(b'"Good day, Ada"'))
    [(judge, score)] = judging.scores(layout.place(0), ids[0], said, said)
    assert (
        judge
        == digest({"name": "exact", "is": exact().identity})
        == "be9b8ff2395d27cb7a10943e5707f8a42e6f98f11c703a168d19eb3b110ad5e2"
    )
    assert score == "2fc978866f543b2b774e277d23d226d81445ed294b99c7e8a99fec7079060fc6"
    assert layout.scope(layout.place(0)) == "a8a090c201598ecd25fb3adda5b4c9f259676b1ae9dce59e3c5c54ada78b592d"
    assert list(layout.in_run_order()) == [15, 1, 3, 6, 5, 13, 12, 7, 2, 4, 0, 11, 8, 9, 14, 10]
    stored = replace(layout, order_version=1)  # as in plans of before, which keep their order
    assert list(stored.in_run_order()) == [5, 14, 6, 8, 2, 11, 1, 13, 4, 15, 7, 9, 3, 10, 0, 12]


def double(number: int) -> int:
    return 2 * number


def test_the_identity_of_steps() -> None:
    channel = MemoryChannel()
    case = SeenCase("x", "x")
    enter(Trial(id="0" * 64, case=case, condition={}, repeat=0, attempt=1, agent="a", channel=channel))
    try:
        assert [step("double", double, 4), step("double", double, 4), step("double", double, number=4)]
    finally:
        enter(None)
    assert list(channel.steps) == [
        "ea6c30cc8cea1b0c811e84ba4bbc9954d947bed1df1ddafdef0e08ff0cd2a9c5",
        "3ee8f579decc09546558f7ff67c4e0e4341feb994a80484fd78153cd88eb5591",
        "4e5aee953eba88ac378e246ef6e8c0c0600616523db7a6def89ac19c5cc75111",
    ]
