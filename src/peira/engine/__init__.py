"""The engine: runs the tasks of a study and records every step durably.

Names that read-only commands need are lazy imports, so that importing this package loads nothing else.
"""

from __future__ import annotations

from peira.core.lazy import lazy_imports

with lazy_imports(__name__):
    from peira.engine import run_log as run_log
    from peira.engine import transcripts as transcripts
    from peira.engine.control import commands_pending as commands_pending
    from peira.engine.rescoring.source import RescoringSource as RescoringSource
    from peira.engine.rescoring.source import can_rescore as can_rescore
    from peira.engine.run_start import spent_by_calls as spent_by_calls
