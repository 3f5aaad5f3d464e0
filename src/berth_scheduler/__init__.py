"""Places the pods that name one of its profiles: kube-scheduler's semantics on berth's engine.

    __main__        settings, clients, leader election: the composition root
    settings        the command line; configuration: the file, plugins from outside, taking a changed file up
    pods            what is kept of a pod; cluster: the API server's objects as a snapshot and as news for the queue
    requests        from a pod to what the engine is asked
    scheduler       one pod after the other: queue, cycle, assumption
    consulted       extenders of the configuration, asked beside all that concerns them not
    binding         what follows beside it: permit, hold, prebind, bind, postbind, and the way back
    disks, volumes  LocalDiskFit and VolumeBinding where they act: locks, claims, volumes
    reports         events, conditions, metrics

Decisions are berth_core's: the cycle, the queue, the plugins, the steps of a claim. Never talks to a node.
"""
