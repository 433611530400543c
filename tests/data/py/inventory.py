# SPDX-License-Identifier: MIT
"""A small inventory: items with stock levels, reservations and a reorder report."""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Iterable, Iterator


class InventoryError(Exception):
    """Raised when an operation would leave the inventory inconsistent."""


@dataclass(frozen=True)
class Item:
    sku: str
    name: str
    price: Decimal
    reorder_level: int = 10
    tags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.sku:
            raise ValueError("an item needs a SKU")
        if self.price < 0:
            raise ValueError(f"negative price for {self.sku}: {self.price}")

    @property
    def label(self) -> str:
        return f"{self.sku}: {self.name}"


@dataclass
class Reservation:
    sku: str
    quantity: int
    customer: str
    expires: date

    def is_expired(self, today: date) -> bool:
        return today > self.expires


@dataclass
class Inventory:
    items: dict[str, Item] = field(default_factory=dict)
    stock: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    reservations: list[Reservation] = field(default_factory=list)

    def add_item(self, item: Item, quantity: int = 0) -> None:
        if item.sku in self.items:
            raise InventoryError(f"{item.sku} exists already")
        self.items[item.sku] = item
        self.stock[item.sku] = quantity

    def receive(self, sku: str, quantity: int) -> int:
        """Adds delivered goods to the stock and returns the new level."""
        self._require(sku)
        if quantity <= 0:
            raise ValueError("a delivery has at least one piece")
        self.stock[sku] += quantity
        return self.stock[sku]

    def available(self, sku: str, today: date | None = None) -> int:
        self._require(sku)
        today = today or date.today()
        reserved = sum(
            r.quantity
            for r in self.reservations
            if r.sku == sku and not r.is_expired(today)
        )
        return self.stock[sku] - reserved

    def reserve(self, sku: str, quantity: int, customer: str, days: int = 7) -> Reservation:
        if quantity > self.available(sku):
            raise InventoryError(f"only {self.available(sku)} of {sku} left")
        reservation = Reservation(sku, quantity, customer, date.today() + timedelta(days=days))
        self.reservations.append(reservation)
        return reservation

    def ship(self, reservation: Reservation) -> None:
        """Takes reserved goods out of the stock."""
        if reservation not in self.reservations:
            raise InventoryError("unknown reservation")
        if self.stock[reservation.sku] < reservation.quantity:
            raise InventoryError(f"{reservation.sku} is short of stock")
        self.stock[reservation.sku] -= reservation.quantity
        self.reservations.remove(reservation)

    def drop_expired(self, today: date) -> int:
        before = len(self.reservations)
        self.reservations = [r for r in self.reservations if not r.is_expired(today)]
        return before - len(self.reservations)

    def to_reorder(self) -> Iterator[tuple[Item, int]]:
        for sku in sorted(self.items):
            item = self.items[sku]
            missing = item.reorder_level - self.available(sku)
            if missing > 0:
                yield item, missing

    def total_value(self) -> Decimal:
        return sum((self.items[s].price * n for s, n in self.stock.items()), Decimal(0))

    def _require(self, sku: str) -> None:
        if sku not in self.items:
            raise InventoryError(f"no item has the SKU {sku!r}")


def load_items(path: Path) -> list[Item]:
    with path.open(newline="", encoding="utf-8") as file:
        return [
            Item(
                sku=row["sku"].strip(),
                name=row["name"].strip(),
                price=Decimal(row["price"]),
                reorder_level=int(row.get("reorder_level") or 10),
                tags=tuple(t for t in row.get("tags", "").split(";") if t),
            )
            for row in csv.DictReader(file)
        ]


def write_report(inventory: Inventory, path: Path) -> None:
    rows = [
        {"sku": item.sku, "name": item.name, "missing": missing}
        for item, missing in inventory.to_reorder()
    ]
    path.write_text(json.dumps({"reorder": rows}, indent=2) + "\n", encoding="utf-8")


def group_by_tag(items: Iterable[Item]) -> dict[str, list[Item]]:
    groups: dict[str, list[Item]] = {}
    for item in items:
        for tag in item.tags or ("untagged",):
            groups.setdefault(tag, []).append(item)
    return groups
