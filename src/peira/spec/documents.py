"""Study files and data files as plain data: TOML, YAML and JSON, with the same meaning in each."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from peira.core.files import check_source, write_whole
from peira.core.ids import Json
from peira.errors import Invalid

FORMATS = (".toml", ".yaml", ".yml", ".json")


def locate(name: str | Path, folders: Sequence[Path]) -> Path:
    """The file of that name, in the first of the folders that has it."""
    for folder in folders:
        if (folder / name).exists():
            return folder / name
    raise Invalid(f"there is no file {str(name)!r} in {folders[0]}")


MOST_VALUES = 1_000_000
"""Values in a document with aliases."""


def read_text(path: Path) -> str:
    check_source(path)
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise Invalid(f"cannot read {path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise Invalid(f"{path} is not UTF-8 (at byte {error.start})") from None


def read_document(path: Path) -> Json:
    """What a TOML, YAML or JSON file says. A key that is given twice is refused in each."""
    text = read_text(path)
    try:
        if path.suffix == ".toml":
            import tomllib  # slow, and most projects have no file

            return tomllib.loads(text)
        if path.suffix == ".json":
            return json.loads(text, object_pairs_hook=_table)
        return _read_yaml(text)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"{path}: {' '.join(str(error).split()) or 'nested too deeply'}") from None


def _table(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for key, value in pairs:
        if key in table:
            raise ValueError(f"the key {key!r} is given twice")
        table[key] = value
    return table


def _read_yaml(text: str) -> Json:
    import yaml

    class Loader(yaml.SafeLoader):
        """Refuses what JSON has no word for: keys given twice, keys that are not text."""

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            self.flatten_mapping(node)
            keys = [self.construct_object(key, deep=True) for key, _ in node.value]
            for i, key in enumerate(keys):
                if not isinstance(key, str):
                    line = node.value[i][0].start_mark.line + 1
                    raise ValueError(f"line {line}: the key {key!r} is not text; write it in quotes")
            return _table(
                (key, self.construct_object(v, deep=True))
                for key, (_, v) in zip(keys, node.value, strict=True)
            )

    try:
        found = yaml.load(text, Loader)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None
    if "*" in text:
        _count(found)
    return found


def _count(document: Json) -> None:
    """ValueError, if aliases make more values than anybody writes, or a value without an end."""
    left, count = [document], 0
    while left:
        value = left.pop()
        count += 1
        if count > MOST_VALUES:
            raise ValueError(f"its aliases make more than {MOST_VALUES:,} values")
        left += value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def write_document(path: Path, document: Json) -> None:
    """Write what `read_document` reads back equal."""
    write_whole(path, _write(path, document).encode())


def _write(path: Path, document: Json) -> str:
    if path.suffix == ".json":
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    if path.suffix == ".toml":
        return _write_toml(path, document)
    if path.suffix in FORMATS:
        return _write_yaml(document)
    raise Invalid(f"cannot write {path.name}; use one of {', '.join(FORMATS)}")


def _write_yaml(document: Json) -> str:
    import yaml

    class Dumper(yaml.SafeDumper):
        pass

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        # Unquoted, PyYAML writes some separators (NEL, for one) that it reads back as blanks.
        style = None if value.replace("\n", "").isprintable() else '"'
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style)

    Dumper.add_representer(str, text)
    return yaml.dump(document, Dumper=Dumper, sort_keys=False, allow_unicode=True)


def _write_toml(path: Path, document: Json) -> str:
    import tomli_w

    nulls = list(_nulls(document, ""))
    if nulls:
        raise Invalid(f"{where}: TOML has no null; save {path.stem} as YAML or JSON" for where in nulls)
    return tomli_w.dumps(document)


def _nulls(value: Json, path: str) -> Iterable[str]:
    if value is None:
        yield path.removeprefix(".")
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _nulls(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield from _nulls(inner, f"{path}[{i}]")
