"""Plane shapes with area and perimeter."""
import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Rectangle:
    width: float
    height: float

    def area(self) -> float:
        return self.width * self.height

    def perimeter(self) -> float:
        return 2 * (self.width + self.height)


@dataclass(frozen=True)
class Circle:
    radius: float

    def area(self) -> float:
        return math.pi * self.radius ** 2

    def perimeter(self) -> float:
        return 2 * math.pi * self.radius


def total_area(shapes: list) -> float:
    total = 0.0
    for shape in shapes:
        total += shape.area()
    return total


def total_perimeter(shapes: list) -> float:
    total = 0.0
    for shape in shapes:
