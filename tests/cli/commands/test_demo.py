from __future__ import annotations


def test_the_demonstration_shows_what_it_says(peira, folder):
    done = peira("demo", "--store", "shown/demo.db", "--model", "scripted:")
    assert done.code == 0, done.err
    assert "96 trials: 96 new, 0 reused" in done.out
    assert "(96 calls" in done.out
    assert peira("verify", "--store", "shown/demo.db").code == 0


def test_every_command_it_tells_to_try_works(peira, folder):
    told = peira("demo", "--store", "shown/demo.db", "--model", "scripted:").out.partition("Try next:")[2]
    commands = [line.partition("#")[0].split()[1:] for line in told.strip().splitlines()]
    assert len(commands) == 3
    for words in commands:
        done = peira(*words)
        assert done.code == 0, done.err
    assert "0 new, 96 reused" in peira(*commands[0]).out


def test_a_model_that_cannot_be_asked_is_named(peira, folder, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    done = peira("demo", "--store", "demo.db", "--model", "openai:gpt-5-mini")
    assert done.code == 2
    assert "OPENAI_API_KEY" in done.err
    assert not (folder / "demo.db").exists()


def test_it_writes_over_nothing(peira, folder):
    (folder / "demo.db").write_text("mine")
    assert peira("demo", "--store", "demo.db").code == 2
    assert (folder / "demo.db").read_text() == "mine"
