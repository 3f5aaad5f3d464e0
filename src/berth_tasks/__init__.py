"""The task backend: one pod a try of a Task, offers in, states out, nothing lost between watch and poll.

    __main__           settings, clients, leader election: the composition root
    subscriptions      Subscription: somebody who is told at their own pace, and again of what they raised on
    store              PodSnapshotStore: snapshots of tasks' pods and who is told of them
    watch_source       PodsWatchSnapshotSource: list-watch that goes on where the checkpoint left off
    polling_source     PodsPollingSnapshotSource: a whole list now and then, the safety net
    checkpoint         what is kept, so that a restart lists no pods of tasks
    sqlite_store       it lies in a file
    postgresql_store   it lies in a database, which several backends share
    kubernetes_client  KubernetesClient: who makes and deletes pods; nobody else here does
    pod_cleanup        PodCleanup: ended pods of final tasks, deleted together
    held_offers        HeldOffers: room that programs hold by TaskOffers, and when it goes back
    kept               what is kept of each Task, of which there may be very many
    backend            KubernetesTaskSchedulerBackend: the rounds, in which tasks are given what is free
    task_registry      TaskRegistry: tasks by uid, their queues, reports of their states
    allocations        Allocations: what was given, where it is, and what is free beside it
    placed             Placed: the sums of that by node
    offer_reservations OfferReservations: TaskOffers that wait, and what is held for others
    filler_admission   FillerAdmission: which filler tasks start
    evictions          Evictions: pods that are asked to go
    refusals           Refusal: why a task does not start
    lifecycle_manager  TaskPodsLifecycleManager: one task and its pods, brought one step further
    usage              what nodes really use, and the room that it leaves to filler tasks
    filler             FillerWork: who of the filler tasks has to go as others use what they reserved
    gangs              which members of gangs do not wait
    queues             the TaskQueues and their policies, and what their status says
    program/           for programs that embed none of this: Tasks, TaskOffers, TaskExecutor
    worker             what runs in the pod of an executor's call; the standard library alone
    nodes              what nodes have and what others use of it

What is decided is decided in berth_core.tasks. What was asked for and how it ended is in the API server: whatever is
lost here is read again from there.
"""
