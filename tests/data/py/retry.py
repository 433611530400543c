# SPDX-License-Identifier: MIT
"""Retrying calls with exponential backoff, for functions and coroutines."""

import asyncio
import functools
import logging
import random
import time

logger = logging.getLogger(__name__)


class GaveUp(Exception):
    def __init__(self, attempts, last_error):
        super().__init__(f"gave up after {attempts} attempts: {last_error!r}")
        self.attempts = attempts
        self.last_error = last_error


class Backoff:
    """Delays that double up to a maximum, with a random part so that clients do not march in step."""

    def __init__(self, first=0.1, factor=2.0, maximum=30.0, jitter=0.1, seed=None):
        if first <= 0 or factor < 1:
            raise ValueError("first must be positive and factor at least 1")
        self.first = first
        self.factor = factor
        self.maximum = maximum
        self.jitter = jitter
        self._random = random.Random(seed)

    def delays(self):
        delay = self.first
        while True:
            spread = delay * self.jitter
            yield min(self.maximum, delay + self._random.uniform(-spread, spread))
            delay = min(self.maximum, delay * self.factor)


def retry(attempts=5, on=(Exception,), backoff=None, sleep=time.sleep):
    """Decorates a function so that the given errors are tried again."""

    def decorate(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            delays = (backoff or Backoff()).delays()
            for attempt in range(1, attempts + 1):
                try:
                    return function(*args, **kwargs)
                except on as error:
                    if attempt == attempts:
                        raise GaveUp(attempt, error) from error
                    delay = next(delays)
                    logger.warning("%s failed (%s), next try in %.2f s", function.__name__, error, delay)
                    sleep(delay)

        return wrapper

    return decorate


async def retry_async(make_call, attempts=5, on=(Exception,), backoff=None):
    delays = (backoff or Backoff()).delays()
    last_error = None
    for attempt in range(attempts):
        try:
            return await make_call()
        except on as error:
            last_error = error
            logger.debug("attempt %d failed: %s", attempt + 1, error)
            await asyncio.sleep(next(delays))
    raise GaveUp(attempts, last_error)


class CircuitBreaker:
    """Stops calling a service that keeps failing, and probes it again after a while."""

    CLOSED, OPEN, HALF_OPEN = "closed", "open", "half-open"

    def __init__(self, threshold=3, cool_down=10.0, clock=time.monotonic):
        self.threshold = threshold
        self.cool_down = cool_down
        self.clock = clock
        self.failures = 0
        self.opened_at = None

    @property
    def state(self):
        if self.opened_at is None:
            return self.CLOSED
        if self.clock() - self.opened_at >= self.cool_down:
            return self.HALF_OPEN
        return self.OPEN

    def call(self, function, *args, **kwargs):
        if self.state == self.OPEN:
            raise RuntimeError("the circuit is open")
        try:
            result = function(*args, **kwargs)
        except Exception:
            self.failures += 1
            if self.failures >= self.threshold:
                self.opened_at = self.clock()
            raise
        self.failures = 0
        self.opened_at = None
        return result
