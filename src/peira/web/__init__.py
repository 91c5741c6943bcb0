"""The web pages and the REST interface of a store: `peira serve` and `peira view`.

`server` listens, `application` joins routes and checks, `security` says who may ask, `reader` reads the
store, `api` answers programs, `pages` people.
"""
