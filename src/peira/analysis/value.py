"""The base of result values, at the address by which packages of others import it."""

from peira.core.text.result_value import ResultValue as ResultValue
from peira.core.text.result_value import TextGrid as TextGrid
