"""The scheduler as an HTTP extender behind the stock kube-scheduler: `berth-scheduler extend`.

command.py puts the parts together: listener.py takes requests, messages.py reads them and writes answers, verdicts.py
decides about nodes, holds.py keeps what is on its way from others, binder.py binds.
"""
