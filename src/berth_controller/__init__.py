"""Binds claims to locked disks, and finds what nobody holds any more.

    __main__      settings, clients, leader election: the composition root
    caches        what the API server has, by list-watch, and what was written since
    wakes         claims that wait for a disk, and the rounds in which they are looked at again
    binder        one claim: asks berth_core.lifecycle for the next write and carries it out
    capacities    CSIStorageCapacity objects, for the stock scheduler; held_back: nodes that it chose in vain
    changes       makes an Event of each change of a replica's Berth, from its history
    orphan_watch  reports what has lost its other half, repairs by the rules of docs/guides/orphans.md
    reports       events, conditions and metrics; pace: how often a claim is told something else

All decisions are made in berth_core.lifecycle and berth_core.app (claim_disks, capacity, orphans). Never looks at
a node and never touches a disk: the agent does, and believes nobody but the lock.
"""
