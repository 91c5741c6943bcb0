from __future__ import annotations

from peira.core.registry import registry
from peira.transforms import register

register(registry)
