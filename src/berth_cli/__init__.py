"""kubectl-berth: who holds what, why a pod waits, what has drifted, how much room is left. For people and scripts.

    __main__    the command line; exit codes
    reading     lists from the API server, through berth_kube
    commands    one function for each command: lists -> an answer, as JSON has it
    tables      the answer as text

What is shown is decided in berth_core.app (overview, what_if, cluster_drift). Never writes to the cluster.
"""
