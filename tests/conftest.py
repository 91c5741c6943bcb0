"""Settings of the whole test suite.

Properties have no deadline, because a shared machine stalls at random; on CI they draw the same
examples every time, so that a red build is a change in the code and not in the luck.
"""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")
