"""Which model is meant by a name: an alias of the project file, or provider:name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from peira.core.models import Model
from peira.core.registry import nearest, registry
from peira.errors import Invalid
from peira.spec.project import Project


def models_of(project: Project) -> Callable[[str], Model]:
    """A function from names to models; Invalid names what is wrong with one."""

    def make(name: str) -> Model:
        options = _alias(project, name)
        provider, colon, rest = str(options.pop("model", name)).partition(":")
        if not colon or not rest:
            known = [*project.models, *(f"{p}:..." for p in registry.names("model"))]
            raise Invalid(
                f"model {name!r}: write provider:name, or an alias of peira.toml{nearest(name, known)}"
            )
        made: Model = registry.make("model", provider, model=rest, **options)
        made.check()
        return made

    return make


def _alias(project: Project, name: str) -> dict[str, Any]:
    found = project.models.get(name, {})
    return dict(found) if isinstance(found, Mapping) else {"model": found}
