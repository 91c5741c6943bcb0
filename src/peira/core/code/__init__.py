"""Fingerprints of user code: its source, the names it reads, and the objects they refer to.

`peira.core.code.fingerprint` is the entry point. Needs only the standard library.
"""
