"""Uses it; another object has a method of the same name."""
from .tasks import charge


class Flight:
    def delay(self, minutes):
        print(minutes)


def checkout(order, flight: Flight):
    charge.delay(order)
    flight.delay(5)
