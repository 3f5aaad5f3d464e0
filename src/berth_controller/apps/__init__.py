"""Carries out StatefulApps whose driver is controller, by the plans and steps that the module stateful_app goes by.

    watch.Apps       which event has which app looked at
    visit.Visits     one look: what is asked for, what is there, the writes that are due, what is told
    trying, reserving, releasing, building, rolling
                     the parts of a look, in that order; none of them waits: what is not there yet ends the look
    downtimes        for how long replicas were not Ready in an update, kept from look to look

All that is decided is decided in berth_core (app.plan, app.choose, app.update, lifecycle.next_step). A look depends on
nothing but what the API server says, so that a process may die after any write.
"""
