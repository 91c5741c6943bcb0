"""The recording endpoint: programs call models over HTTP, in the providers' own APIs, through the ledger."""
