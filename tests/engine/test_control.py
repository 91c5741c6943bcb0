"""Commands from other processes: each is taken once, and what is no command does no harm."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from peira.engine.control import CANCEL, MOST_BYTES, Command, ControlFolder
from peira.errors import Invalid


@pytest.fixture
def control(tmp_path: Path) -> ControlFolder:
    folder = tmp_path / "control"
    folder.mkdir()
    return ControlFolder(folder)


def put(control: ControlFolder, content: object, name: str = "x.json") -> Path:
    file = control.folder / name
    file.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return file


def taken(control: ControlFolder) -> list[Command]:
    """What has arrived, in order; as an owner does, each is removed once it was looked at."""
    found = []
    for file, command in control.pending():
        found.append(command)
        control.remove(file)
    return found


def test_a_command_is_taken_once(tmp_path: Path) -> None:
    control = ControlFolder(tmp_path / "made" / "when needed")
    assert taken(control) == []
    command = Command(CANCEL, "run", "somebody")
    control.send(command)
    assert taken(ControlFolder(control.folder)) == [command]
    assert taken(control) == []
    assert os.listdir(control.folder) == []


def test_commands_are_told_apart_and_wait_for_an_owner_in_the_order_of_sending(
    control: ControlFolder,
) -> None:
    sent = [Command(CANCEL, "run", "x", body={"n": n}) for n in range(50)]
    for command in sent:
        control.send(command)
    later = ControlFolder(control.folder)
    assert [command for _, command in later.pending()] == sent
    assert all(control.holds(command) for command in sent)  # looking takes nothing away
    assert taken(later) == sent
    assert not any(control.holds(command) for command in sent)


def test_large_commands_fit_and_larger_ones_are_refused(control: ControlFolder) -> None:
    command = Command("submit", "run", "x", body={"input": "x" * (MOST_BYTES - 1000)})
    control.send(command)
    assert taken(control) == [command]
    with pytest.raises(Invalid, match="too many"):
        control.send(Command("submit", "run", "x", body={"input": "x" * MOST_BYTES}))
    assert os.listdir(control.folder) == []


def test_what_a_killed_sender_left_is_swept_after_a_while(control: ControlFolder) -> None:
    old, new = put(control, b"{", ".old"), put(control, b"{", ".new")
    os.utime(old, (1, 1))
    assert taken(control) == []
    assert (old.exists(), new.exists()) == (False, True)


def test_a_command_that_is_still_being_written_is_left_alone(control: ControlFolder) -> None:
    draft = put(control, b'{"command": "can', ".123")
    assert taken(control) == []
    assert draft.exists()


GARBAGE = {
    "nothing": b"",
    "no JSON": b"{",
    "no text": b"\xff\xfe",
    "zeros": bytes(100),
    "a list": [1],
    "null": None,
    "a field too few": {"command": "cancel", "run": "r"},
    "other types": {"command": "cancel", "run": "r", "by": 5, "id": 7},
    "an id that is none": {"command": "cancel", "run": "r", "by": "x", "id": None},
    "text that UTF-8 cannot carry": b'{"command":"cancel","run":"r","by":"\\ud800","id":"1"}',
    "nested too deep": b"[" * 200_000,
}


@pytest.mark.parametrize(
    "content",
    [pytest.param(c, id=name) for name, c in GARBAGE.items()],
)
def test_garbage_is_thrown_away_and_hides_no_command(control: ControlFolder, content: object) -> None:
    put(control, content, "0.json")
    command = Command(CANCEL, "run", "somebody")
    control.send(command)
    assert taken(control) == [command]
    assert os.listdir(control.folder) == []


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.one_of(
        st.binary(max_size=40),
        st.dictionaries(
            st.sampled_from(["command", "run", "by", "id", "x"]),
            st.one_of(st.text(max_size=3), st.integers(), st.none()),
        ),
    )
)
def test_whatever_lies_there_a_command_is_of_text(control: ControlFolder, content: Any) -> None:
    put(control, content)
    for command in taken(control):
        assert all(type(value) is str for value in (command.command, command.run, command.by, command.id))
    assert os.listdir(control.folder) == []


def test_what_is_no_file_is_thrown_away_too(control: ControlFolder, tmp_path: Path) -> None:
    """A folder, a link that leads nowhere, a link to somebody's file, a pipe that nobody writes."""
    precious = tmp_path / "precious.json"
    precious.write_text("{}")
    (control.folder / "a.json" / "inside").mkdir(parents=True)
    (control.folder / "b.json").symlink_to("nowhere")
    (control.folder / "c.json").symlink_to(precious)
    os.mkfifo(control.folder / "d.json")
    command = Command(CANCEL, "run", "somebody")
    control.send(command)
    assert taken(control) == [command]
    assert os.listdir(control.folder) == []
    assert precious.exists()


def test_names_lead_nowhere_else(control: ControlFolder) -> None:
    """Only what lies in the folder itself is read or removed, whatever a command says of itself."""
    outside = control.folder.parent / "outside.json"
    outside.write_text("{}")
    put(control, {"command": "cancel", "run": "../outside", "by": "x", "id": "../outside"})
    [command] = taken(control)
    assert command.id == "../outside"
    assert outside.exists()
