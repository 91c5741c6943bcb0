"""HTTP to model providers: endpoints, connections, requests, failures, one send."""
