"""The daemons' side of the API server: requests, list-watch, caches, leases, events. No other room makes requests."""
