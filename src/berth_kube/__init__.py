"""The daemons' side of the API server: requests, list-watch, caches, leases, events. No other room makes requests.

    config.load() -> Config          who we are: kubeconfig, or the pod's service account
    client.KubeClient(config)        get, list, create, replace, patch, apply, delete, watch

Inside, each file knows only those to its right: client -> sending -> wire -> http1, config -> credentials -> tls.
"""
