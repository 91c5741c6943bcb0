"""Hugging Face data sets, by the package `datasets`, at one revision that is recorded."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from peira.core.ids import Json
from peira.errors import Invalid
from peira.spec.query import Query
from peira.spec.rows import Row

COMMIT = re.compile(r"[0-9a-f]{40}")


def hub_rows(query: Query, origin: dict[str, Json]) -> Iterator[Row]:
    """The rows of a data set's split. A revision that is a name (or none) is settled to its commit first."""
    try:
        datasets, hub = import_module("datasets"), import_module("huggingface_hub")
    except ImportError:
        raise Invalid(f"{query.dataset}: needs the package datasets; {instead(query)}") from None
    name, config = query.dataset, query.config or None
    try:
        revision = _commit(hub, name, query.revision)
        loaded = datasets.load_dataset(name, config, split=query.split, revision=revision)
    except Exception as error:  # whatever the hub, the network or the package says
        said = " ".join(str(error).split())[:300]
        raise Invalid(f"{name}: cannot be had ({type(error).__name__}: {said}); {instead(query)}") from None
    origin |= {"dataset": name, "config": query.config, "split": query.split, "revision": revision}
    return (Row(name, number, value) for number, value in enumerate(loaded, 1))


def _commit(hub: Any, name: str, revision: str) -> str:
    if COMMIT.fullmatch(revision):
        return revision
    return str(hub.HfApi().dataset_info(name, revision=revision or None).sha)


def instead(query: Query) -> str:
    """What to do to have the data after all."""
    where = f"https://huggingface.co/datasets/{query.dataset}"
    part = f"split {query.split}" + (f" of {query.config}" if query.config else "")
    return (
        f"pip install 'peira[data]' and be online, or get a copy of {part} from {where} and give it "
        "as a file or folder (--data PATH)"
    )
