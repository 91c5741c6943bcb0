"""What differs between two versions of a plan, and what can be reused.

How changes are told is imported when two versions are compared.
"""

from __future__ import annotations

from peira.core.lazy import lazy_imports

with lazy_imports(__name__):
    from peira.plan.diff.changes import PlanVersion as PlanVersion
    from peira.plan.diff.changes import compare as compare
    from peira.plan.diff.changes import making_new as making_new
    from peira.plan.diff.changes import version_of as version_of
