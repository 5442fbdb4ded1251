"""Python loads this first where PYTHONPATH names this folder. The client finds its time run out ten times just when an
answer of the server has come, as it does when a server that stood still goes on a moment before the client gives up."""

from nats.js.client import JetStreamContext

time_until = JetStreamContext._time_until
left = 10


def late(timeout, start_time):
    global left
    left -= 1
    return 0.0 if left >= 0 else time_until(timeout, start_time)


JetStreamContext._time_until = late
