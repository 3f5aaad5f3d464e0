"""Other people's extenders, which the configuration names and this scheduler asks, as kube-scheduler does.

messages.py makes the questions and reads the answers, extender.py sends them, opinions.py gathers what all say of a
pod, turns.py puts pods before them, one after the other and beside all decisions that concern no extender. (The
extender that berth itself is, behind the stock kube-scheduler, is in ../extender.)
"""
