"""Models of providers, behind one protocol (`peira.core.models.Model`).

Names are imported lazily: no vendor's library is needed, aiohttp is imported with the first call, and a
provider's module when one of its models is made.
"""

from __future__ import annotations

from peira.core.lazy import lazy_imports

with lazy_imports(__name__):
    from peira.core.text.secrets import value_without_keys as value_without_keys
    from peira.core.text.secrets import without_keys as without_keys
    from peira.models.http.model import ServedModel as ServedModel
    from peira.models.http.request import Timeouts as Timeouts
    from peira.models.names import make as make
    from peira.models.names import parse as parse
    from peira.models.names import register as register
    from peira.models.prices import price_of as price_of
    from peira.models.prices import sellers as sellers
    from peira.models.prices import table as table
    from peira.models.providers.anthropic import anthropic as anthropic
    from peira.models.providers.local import LocalModel as LocalModel
    from peira.models.providers.openai import openai as openai
    from peira.models.providers.replay import ReplayModel as ReplayModel
    from peira.models.providers.replay import record as record
    from peira.models.providers.replay import request_digest as request_digest
    from peira.models.providers.scripted import ScriptedModel as ScriptedModel
