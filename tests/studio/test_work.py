"""Questions wait in lanes: everybody has a turn, and nobody's who has left is computed."""

import asyncio
import threading
import time

import pytest
from fastapi import Request

from headwater.errors import HeadwaterError
from headwater.studio import work
from headwater.studio.errors import Gone, Refused
from headwater.studio.limits import WAITING_OF_TAB
from headwater.studio.work import Desk


class Asking:
    """A request that somebody may take back."""

    def __init__(self, tab=""):
        self.left = asyncio.Event()
        scope = {"type": "http", "headers": [(b"x-tab", tab.encode())], "method": "GET", "path": "/", "query_string": b""}
        self.request = Request(scope, self._receive)
        self._first = True

    async def _receive(self):
        if self._first:
            self._first = False
            return {"type": "http.request", "body": b"", "more_body": False}
        await self.left.wait()
        return {"type": "http.disconnect"}


def asked(desk, compute, tab="", lane="model"):
    asking = Asking(tab)
    return asking, asyncio.ensure_future(desk.answer(asking.request, lane, compute))


class Held:
    """Work that goes on until it is let go."""

    def __init__(self):
        self.has_begun, self.may_end = threading.Event(), threading.Event()

    def __call__(self, stop):
        self.has_begun.set()
        assert self.may_end.wait(20)
        return "held"

    async def begun(self):
        await asyncio.to_thread(self.has_begun.wait, 20)


def test_a_tab_with_one_question_is_answered_before_another_has_its_second():
    async def scene():
        desk, order, held = Desk(), [], Held()
        _, first = asked(desk, held, "busy")
        await held.begun()
        many = [asked(desk, lambda stop, n=n: order.append(f"busy {n}"), "busy")[1] for n in range(50)]
        await asyncio.sleep(0)
        quick = [asked(desk, lambda stop, n=n: order.append(f"quick {n}"), f"tab {n}")[1] for n in range(19)]
        await asyncio.sleep(0.05)
        held.may_end.set()
        await asyncio.gather(first, *many, *quick)
        return order

    order = asyncio.run(scene())
    assert len(order) == 69
    assert order[0] == "busy 0"
    assert order[1:20] == [f"quick {n}" for n in range(19)]


def test_who_leaves_while_waiting_is_never_computed():
    async def scene():
        desk, held, computed = Desk(), Held(), []
        _, first = asked(desk, held)
        await held.begun()
        askings = [asked(desk, lambda stop, n=n: computed.append(n)) for n in range(10)]
        await asyncio.sleep(0.05)
        for asking, _ in askings[::2]:
            asking.left.set()
        gone = await asyncio.gather(*(answer for _, answer in askings[::2]), return_exceptions=True)
        held.may_end.set()
        await asyncio.gather(first, *(answer for _, answer in askings[1::2]))
        return gone, computed

    gone, computed = asyncio.run(scene())
    assert all(isinstance(error, Gone) for error in gone)
    assert computed == [1, 3, 5, 7, 9]


def test_who_leaves_while_it_is_computed_ends_it_at_the_next_step():
    async def scene():
        desk, steps, has_begun = Desk(), [], threading.Event()

        def compute(stop):
            for step in range(1_000):
                stop()
                steps.append(step)
                has_begun.set()
                time.sleep(0.005)

        asking, answer = asked(desk, compute)
        await asyncio.to_thread(has_begun.wait, 20)
        asking.left.set()
        with pytest.raises(Gone):
            await answer
        _, after = asked(desk, lambda stop: "free again")
        return await asyncio.wait_for(after, 3), steps

    after, steps = asyncio.run(scene())
    assert after == "free again"
    assert 0 < len(steps) < 900


def test_a_run_is_given_up_between_two_layers(tmp_path):
    """What a vanished client's model still does: nothing but the layer that it is at."""
    from headwater import Model
    from headwater.model.config import Attention, ModelConfig
    from headwater.model.weights import Weights
    from headwater.studio.opened import record_until
    from headwater.studio.work import Stop

    config = ModelConfig(vocab=32, context=8, d_model=8, layers=12, attention=Attention(heads=2, d_head=4))
    model, asked_for = Model(Weights.draw(config, seed=0)), []

    class Leaving(Stop):
        at = 5

        def __call__(self, *_):
            asked_for.append(1)
            if len(asked_for) == self.at:
                self.now()
            super().__call__()

    with pytest.raises(Gone):
        record_until(model, model.tokens([1, 2, 3]), Leaving())
    assert len(asked_for) == 5
    asked_for.clear()
    Leaving.at = None
    record_until(model, model.tokens([1, 2, 3]), Leaving())
    assert len(asked_for) >= 12, "once for each layer at least"


def test_what_takes_too_long_is_told_so_and_its_lane_is_free_again():
    async def scene():
        desk = Desk(seconds=0.05)

        def compute(stop):
            while True:
                stop()
                time.sleep(0.005)

        with pytest.raises(Refused) as refused:
            await asked(desk, compute)[1]
        desk.seconds = 5
        assert await asked(desk, lambda stop: 7)[1] == 7
        return refused.value

    assert asyncio.run(scene()).status == 504


def test_one_tab_does_not_take_the_places_of_all_and_those_who_left_take_none():
    async def scene():
        desk, held = Desk(), Held()
        _, first = asked(desk, held, "busy")
        await held.begun()
        askings = [asked(desk, lambda stop: 1, "busy") for _ in range(WAITING_OF_TAB)]
        await asyncio.sleep(0.05)
        with pytest.raises(Refused) as refused:
            await asked(desk, lambda stop: 1, "busy")[1]
        other = asked(desk, lambda stop: "other", "other")[1]
        for asking, _ in askings:
            asking.left.set()
        await asyncio.gather(*(answer for _, answer in askings), return_exceptions=True)
        again = asked(desk, lambda stop: "again", "busy")[1]
        await asyncio.sleep(0)
        held.may_end.set()
        return refused.value.status, await other, await again, await first

    assert asyncio.run(scene()) == (429, "other", "again", "held")


def test_lanes_do_not_wait_for_each_other():
    async def scene():
        desk, held = Desk(), Held()
        _, first = asked(desk, held, lane="model")
        await held.begun()
        others = [await asked(desk, lambda stop: 1, lane=lane)[1] for lane in ("search", "files")]
        held.may_end.set()
        return others, await first

    assert asyncio.run(scene()) == ([1, 1], "held")


@pytest.mark.parametrize(
    "error",
    [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), StopIteration(1), asyncio.CancelledError(), BaseException("a panic")],
)
def test_no_error_of_a_thread_ends_more_than_its_answer(error):
    async def scene():
        desk = Desk()

        def compute(stop):
            raise error

        with pytest.raises(RuntimeError):
            await asyncio.wait_for(asked(desk, compute)[1], 5)
        return await asked(desk, lambda stop: "alive")[1]

    assert asyncio.run(scene()) == "alive"


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 99 bytes")]
)
def test_too_little_memory_is_told_as_that(error):
    told = work._bearable(error)
    assert isinstance(told, HeadwaterError)
    assert told.status == 503
