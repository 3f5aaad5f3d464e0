"""The daemons' side of the API server: requests, list-watch, caches, leases, events. No other room makes requests.

    config.load() -> Config          who the daemon is: kubeconfig, or the pod's service account
    client.KubeClient(config)        get, list, create, replace, patch, apply, delete, watch
    informer.Informer                list-watch of one kind into a cache that outlives the API server
    queue.Reconciler, WorkQueue      keys that want work, never the same one twice at a time
    lease.LeaderElection             who may write; `check` says so right before each write
    events.Recorder                  news for people
    serve.Server, metrics, logs      what a daemon shows of itself
    talk.Talk                        a connection of a server that takes bodies

Inside, each file knows only those to its right: client -> reading -> sending -> wire -> connection ->
exchange -> http1; config -> credentials -> tls; talk -> serve -> listening -> tls.
"""
