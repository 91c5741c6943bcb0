"""Whether two expressions mean the same: `math_equal`, by math-verify in a process of its own.

math-verify guards itself by alarms, which work in the main thread only, and evaluators run in others. What a
model wrote may also be an expression that no computer finishes (10^(10^10)). So it computes in an aide, which
is ended when it takes too long.
"""

from __future__ import annotations

from functools import partial

from peira.core.ids import Json
from peira.core.reading.numbers import is_number
from peira.errors import Invalid
from peira.evaluators.aide import aides
from peira.evaluators.comparison import Comparison
from peira.evaluators.libraries import needs
from peira.evaluators.references import texts

_aides = aides("peira.evaluators.mathematics_aide")


def math_equal(seconds: float = 5.0) -> Comparison:
    r"""The last expression in the text is mathematically equal to the expected one: 1/2, 0.5, $\frac{1}{2}$.

    LaTeX stands between $ signs or in \boxed{}; a text without words may go without. A list that is expected
    holds several right answers. A comparison that takes more than `seconds` fails, and is not wrong.
    """
    if not is_number(seconds) or not 0 < seconds <= 600:
        raise Invalid(f"math_equal: seconds={seconds!r} is not a number above 0, and at most 600")
    known = needs("math_equal", "math-verify", "sympy")
    return Comparison("math_equal", partial(_equal, seconds), (("seconds", seconds),), libraries=known)


def _equal(seconds: float, output: Json, expected: Json) -> bool:
    said, references = texts("math_equal", output, expected)
    if any(said.strip() == one.strip() != "" for one in references):
        return True
    return any(_aides.ask([one, said, seconds], seconds) is True for one in references)
