"""Functions of a component that was not written for Toolhost."""

from componentize_py_types import Err
from wit_world import exports
from wit_world.exports.convert import Reading, Scale


def celsius(reading: Reading) -> float:
    return reading.degrees if reading.scale == Scale.CELSIUS else (reading.degrees - 32) / 1.8


class Convert(exports.Convert):
    def convert(self, reading: Reading) -> Reading:
        degrees = celsius(reading)
        if degrees < -273.15:
            raise Err("below absolute zero")
        if reading.scale == Scale.CELSIUS:
            return Reading(degrees * 1.8 + 32, Scale.FAHRENHEIT)
        return Reading(degrees, Scale.CELSIUS)

    def average(self, readings: list[Reading]) -> float | None:
        return sum(map(celsius, readings)) / len(readings) if readings else None
