"""The studio's routes under many more questions: by their description, and by every value that has broken other servers."""

import pytest

from hostile_values import EVERY
from studio_app import Studio, operations, shelf_of_all
from studio_fuzz import fuzz, try_all

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3_600)]


@pytest.fixture(scope="module")
def studio(tmp_path_factory):
    there = Studio(shelf_of_all(tmp_path_factory.mktemp("shelf")))
    yield there
    there.close()


@pytest.mark.parametrize("route", operations(), ids=lambda route: f"{route[0]} {route[1]}")
def test_every_parameter_of_every_route_takes_anything(studio, route):
    try_all(studio, route, EVERY)


def test_answers_are_what_the_description_says(studio):
    seen = fuzz(studio, 25)
    assert {200, 404, 422} <= seen.statuses
