"""What is handed out: a wheel and an sdist with the studio's page inside, so that nobody who installs them needs Node."""

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import release
from studio_server import studio

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("packages")]
ROOT = Path(__file__).parents[2]
PAGE = {"index.html", "favicon.svg", "widgets.js", "widgets.css"}


def build(place, out, *kinds):
    return subprocess.run(
        [sys.executable, "-m", "build", *kinds, "--outdir", out, place], capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    # First an sdist, then from that the wheel: what is missing in the one is missing in the other.
    return release.packages(ROOT, tmp_path_factory.mktemp("dist"))


def test_both_hold_the_page_and_nothing_that_only_its_builders_need(packed):
    wheel, sdist = packed
    with zipfile.ZipFile(wheel) as inside:
        names = inside.namelist()
    with tarfile.open(sdist) as inside:
        listed = inside.getnames()
    built = {name.removeprefix("headwater/page/") for name in names if name.startswith("headwater/page/")}
    assert built >= PAGE
    assert any(name.startswith("assets/") and name.endswith(".js") for name in built)
    assert any(name.endswith("src/headwater/page/index.html") for name in listed)
    assert any(name.endswith("web/package-lock.json") for name in listed)
    wrong = [name for name in (*names, *listed) if name.endswith((".map", ".pyc", ".d.ts")) or "node_modules" in name]
    assert wrong == []
    assert all(name.startswith(("headwater/", "headwater-")) for name in names)


def test_nothing_is_missing_nothing_is_stray_and_the_wheel_stays_small(packed):
    assert release.look_through(*packed) == []


def test_what_is_stray_or_missing_is_seen(packed, tmp_path):
    wheel, sdist = packed
    worse = tmp_path / wheel.name
    with zipfile.ZipFile(wheel) as inside, zipfile.ZipFile(worse, "w") as other:
        for name in set(inside.namelist()) - {"headwater/py.typed"}:
            other.writestr(name, inside.read(name))
        other.writestr("headwater/page/assets/x.js.map", "{}")
        other.writestr("headwater/page/assets/x.js", "//# sourceMappingURL=x.js.map")
        other.writestr("headwater/tests/test_api.py", "")
        other.writestr("tests/conftest.py", "")
    wrong = "\n".join(release.look_through(worse, sdist))
    for seen in (
        "py.typed is missing",
        "x.js.map is of no kind",
        "names a source map",
        "test_api.py is a test",
        "outside the package",
    ):
        assert seen in wrong


def test_the_studio_of_a_wheel_answers_without_the_checkout(packed, tmp_path):
    wheel, _ = packed
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", tmp_path / "there", wheel], check=True
    )
    with studio("one-layer", folder=tmp_path, environment={"PYTHONPATH": str(tmp_path / "there")}) as running:
        with running.client() as client:
            page = client.get("/river")
            script = client.get(page.text.split('src="')[1].split('"')[0])
        river = running.get("/api/river", model="one-layer", text="for line in open(")
    assert (page.status_code, script.status_code) == (200, 200)
    assert river["certificate"] <= river["bound"]


def test_a_checkout_without_the_page_is_not_packed(packed, tmp_path):
    _, sdist = packed
    with tarfile.open(sdist) as inside:
        inside.extractall(tmp_path, filter="data")
    checkout = next(tmp_path.iterdir())
    shutil.rmtree(checkout / "src/headwater/page")
    told = build(checkout, tmp_path / "dist", "--wheel")
    assert told.returncode != 0
    assert "make page" in told.stdout + told.stderr
