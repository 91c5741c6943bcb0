"""Packed cases are those that were given, and are stored in the same bytes as a list of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira import Case, study
from peira.core.codec import encode
from peira.core.ids import digest_bytes
from peira.errors import StoreDamaged
from peira.plan.expansion import expand
from peira.plan.manifest import keep, layout_of, read
from peira.plan.stored_cases import StoredCases
from peira.plan.trials import PlannedCase
from peira.spec.case import MANY

TEXTS = st.text(max_size=20)
DIGESTS = st.binary(min_size=32, max_size=32).map(bytes.hex)
IDS = TEXTS | DIGESTS.map(lambda digits: digits[:16])
VALUES: Any = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
)
CASES = st.lists(
    st.builds(
        PlannedCase,
        id=IDS,
        seen=DIGESTS,
        input=VALUES | st.just([1, {"id": "a", "seen": "b"}, {"id": "c"}]),
        expected=VALUES,
        cluster=st.none() | TEXTS,
        slice=st.none() | TEXTS,
        metadata=st.dictionaries(TEXTS, VALUES, max_size=2),
        judged_by=st.lists(DIGESTS, max_size=2).map(tuple),
    ),
    max_size=8,
)


@given(CASES, st.integers(1, 300))
def test_cases_are_kept_as_they_were_given(cases: list[PlannedCase], size: int) -> None:
    data = encode(cases)
    found = StoredCases.read(data[at : at + size] for at in range(0, len(data), size))
    assert list(found) == cases
    assert [found[at] for at in range(len(found))] == cases
    assert found[1:3] == cases[1:3]
    assert b"".join(found.pieces()) == data


def stored(work: Any) -> tuple[Any, Any, str]:
    """The layout of a study, that of its stored plan, and the digest of the cases."""
    blobs: dict[str, bytes] = {}

    def put(data: bytes) -> str:
        blobs[digest_bytes(data)] = data
        return digest_bytes(data)

    plan = expand(work)
    manifest = read(keep(plan, put), blobs.__getitem__)
    assert type(blobs[manifest.case_sets[""]]) is bytes
    return plan.layout, layout_of(manifest, blobs.__getitem__), manifest.case_sets[""]


def test_a_plan_of_many_cases_holds_them_as_they_are_stored() -> None:
    cases = [Case(f"question {n}", expected=n, metadata={"a": n} if n % 2 else {}) for n in range(MANY)]
    layout, found, digest = stored(study(cases=cases, evaluators=["exact"])(lambda case: case.input))
    assert isinstance(layout.case_sets[""], StoredCases)
    assert digest == digest_bytes(encode(list(layout.case_sets[""])))
    few, _, _ = stored(study(cases=cases[:10], evaluators=["exact"])(lambda case: case.input))
    assert few.case_sets[""] == layout.case_sets[""][:10]
    for at in (0, 1, MANY - 1):
        assert layout.trial_id(layout.place(at)) == found.trial_id(found.place(at))
    assert layout.trial_id(layout.place(7)) == few.trial_id(few.place(7))


def test_cases_with_evaluators_of_their_own_are_objects() -> None:
    cases = [Case(str(n), expected="a") for n in range(MANY - 1)]
    cases.append(Case("last", expected="b", evaluators=["includes"]))
    layout, _, _ = stored(study(cases=cases, evaluators=["exact"])(lambda case: case.input))
    assert isinstance(layout.case_sets[""], list)
    assert layout.case_sets[""][-1].judged_by


def test_what_is_no_array_of_cases_is_refused() -> None:
    digest = "0" * 64
    whole = b'[{"id":"a","seen":"%b","input":1}]' % digest.encode()
    assert StoredCases.read([whole])[0] == PlannedCase("a", digest, 1)
    for wrong in (whole[:-1], whole[1:], whole.replace(b"0", b"x"), b"", b"{}"):
        with pytest.raises(StoreDamaged, match="not stored as peira writes them"):
            StoredCases.read([wrong])
