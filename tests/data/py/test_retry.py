# SPDX-License-Identifier: MIT
import pytest

from retry import Backoff, CircuitBreaker, GaveUp, retry


class FakeClock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def test_success_needs_one_call():
    calls = []

    @retry(attempts=3, sleep=lambda delay: None)
    def work():
        calls.append(1)
        return 42

    assert work() == 42
    assert len(calls) == 1


def test_gives_up_after_the_last_attempt():
    slept = []

    @retry(attempts=3, on=(OSError,), backoff=Backoff(jitter=0), sleep=slept.append)
    def work():
        raise OSError("disk full")

    with pytest.raises(GaveUp) as info:
        work()
    assert info.value.attempts == 3
    assert slept == [0.1, 0.2]


@pytest.mark.parametrize("first, factor", [(0, 2), (-1, 2), (0.1, 0.5)])
def test_backoff_refuses_nonsense(first, factor):
    with pytest.raises(ValueError):
        Backoff(first=first, factor=factor)


def test_breaker_opens_and_probes_again():
    clock = FakeClock()
    breaker = CircuitBreaker(threshold=2, cool_down=5, clock=clock)

    def fail():
        raise KeyError("nope")

    for _ in range(2):
        with pytest.raises(KeyError):
            breaker.call(fail)
    assert breaker.state == CircuitBreaker.OPEN
    with pytest.raises(RuntimeError):
        breaker.call(lambda: 1)
    clock.now = 6.0
    assert breaker.state == CircuitBreaker.HALF_OPEN
    assert breaker.call(lambda: 1) == 1
    assert breaker.state == CircuitBreaker.CLOSED
