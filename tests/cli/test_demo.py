from __future__ import annotations


def test_the_demonstration_shows_what_it_says(peira, folder):
    done = peira("demo", "--store", "shown/demo.db")
    assert done.code == 0, done.err
    assert "the store says: interrupted" in done.out
    assert "of these run again: 0" in done.out
    assert "completed: 240 trials" in done.out
    assert peira("verify", "--store", "shown/demo.db").code == 0


def test_it_writes_over_nothing(peira, folder):
    (folder / "demo.db").write_text("mine")
    assert peira("demo", "--store", "demo.db").code == 2
    assert (folder / "demo.db").read_text() == "mine"
