"""Keys by reference: a configuration never holds a key, only where it is.

It is the name of an environment variable, or `keyring:SERVICE/USER`. The key is looked up when it is sent,
and is in no repr; `peira.core.text.secrets` keeps it out of what is written and shown.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from peira.core.text.secrets import remember
from peira.errors import Invalid

_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")


@dataclass(frozen=True, slots=True)
class Key:
    """A reference to a key. `needed`: nothing can be sent without it."""

    where: str
    needed: bool = True

    def __post_init__(self) -> None:
        if not _VARIABLE.fullmatch(self.where) and not self.where.startswith("keyring:"):
            # The value is not repeated in the message: it is most often the key itself.
            raise Invalid('key: give the name of an environment variable, like "OPENAI_API_KEY", not the key')

    def find(self) -> str:
        """The key; "" if there is none."""
        if self.where.startswith("keyring:"):
            found = _from_keyring(self.where.removeprefix("keyring:"))
        else:
            found = os.environ.get(self.where, "").strip()
        remember(found)
        return found

    def check(self, who: str) -> None:
        """Raise Invalid, with the name of the variable, if a needed key is missing."""
        if self.needed and not self.find():
            place = (
                self.where if self.where.startswith("keyring:") else f"the environment variable {self.where}"
            )
            raise Invalid(f"{who}: no key; set {place}")


def _from_keyring(entry: str) -> str:
    """The key in the system's keyring; Invalid if the package is missing."""
    try:
        keyring: Any = import_module("keyring")  # optional, and slow to import
    except ImportError:
        raise Invalid("key: reading a keyring needs `pip install keyring`") from None
    service, _, user = entry.rpartition("/")
    return keyring.get_password(service or entry, user) or ""
