"""Studies from files, and back: a .py, .toml, .yaml or .json file of the same study gives the same study."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import peira.spec as rooms
from peira.core.registry import nearest
from peira.errors import Invalid
from peira.spec.files import FORMATS, read_document, write_document
from peira.spec.modules import is_reference, load_file, resolve_reference
from peira.spec.study import Study
from peira.spec.write import Writer


def load(ref: str | Path, base: Path | None = None) -> Study:
    """The study that is meant by file.py, file.py:name, a .toml, .yaml or .json file, or a benchmark's name.

    Invalid holds every problem. A relative file lies under `base`, or else the working folder.
    """
    text, base = str(ref), base or Path()
    if is_reference(text):
        return _named(text, base)
    path = base / text
    if path.suffix == ".py":
        return _sole(load_file(path), path.name)
    if path.suffix in FORMATS:
        return _from_document(path)
    if (meant := rooms.find_benchmark(text)) is not None:
        return meant.compile()
    raise Invalid(f"{text!r} is no study; use file.py, file.py:name, or one of {', '.join(FORMATS)}")


def _named(text: str, base: Path) -> Study:
    found = resolve_reference(text, base)
    if isinstance(found, Study):
        return found
    if isinstance(found, rooms.Benchmark):
        return found.compile()
    file, _, name = text.rpartition(":")
    studies = _studies(load_file(base / file))
    raise Invalid(f"{name} in {file} is not a study; decorate it with @study{nearest(name, studies)}")


def _sole(module: ModuleType, file: str) -> Study:
    studies = _studies(module)
    if len({id(study) for study in studies.values()}) == 1:
        return next(iter(studies.values()))
    if not studies:
        raise Invalid(f"there is no study in {file}")
    raise Invalid(f"there are several studies in {file}: write {' or '.join(f'{file}:{n}' for n in studies)}")


def _studies(module: ModuleType) -> dict[str, Study]:
    return {name: value for name, value in vars(module).items() if isinstance(value, Study)}


def _from_document(path: Path) -> Study:
    document = read_document(path)
    if not isinstance(document, Mapping):
        raise Invalid(f"{path.name} must hold the parts of a study (name, cases, agent, ...)")
    return Study.assemble({"name": path.stem, **document}, [path.resolve().parent])


def dump(study: Study, base: Path | None = None) -> dict[str, Any]:
    """The study as plain JSON: functions as file.py:name, cases from a file as that file.

    Files are named relative to `base`, or else absolutely. A function that has no name in a file is written
    {"missing": its name}: `restore` makes a placeholder of it.
    """
    return Writer(base).study(study)


def save(study: Study, path: str | Path) -> None:
    """Write a .toml, .yaml or .json file that `load` reads back as the same study."""
    path = Path(path)
    writer = Writer(path.resolve().parent)
    document = writer.study(study)
    if writer.unnamed:
        raise Invalid(writer.unnamed)
    write_document(path, document)


def snapshot(study: Study, base: Path | None = None, *, cases: bool = True) -> dict[str, Any]:
    """What a run keeps of a study: `dump`, with its cases in place of the names of their files.

    With `cases=False` they are left out, for a run that keeps them elsewhere.
    """
    return Writer(base).study(study, files=False, cases=cases)


def restore(snapshot: Mapping[str, Any], base: Path | None = None) -> Study:
    """The study of a snapshot, also when the user's files have changed or gone.

    A placeholder stands for code that cannot be had any more; using it raises Invalid with the reason.
    """
    return Study.assemble(snapshot, [base or Path()], lenient=True)
