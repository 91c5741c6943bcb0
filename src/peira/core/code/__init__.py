"""How peira sees the code of a user's function: its source, the names it reads, the objects behind them.

`peira.core.fingerprint` is the door. Needs nothing but the standard library.
"""
