"""What is handed out, tried as somebody would who gets it: ``make release-check``.

Builds sdist and wheel, looks through both, installs the wheel in a fresh virtual environment, and asks it for the main jobs on a PATH without Node.
"""

import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import urllib.parse
import urllib.request
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
MOST_BYTES = 16 * 10**6
"""Of a wheel: four trained models with their logs, and a page."""
KINDS = {".py", ".typed", ".toml", ".json", ".jsonl", ".safetensors", ".html", ".css", ".js", ".svg"}
"""What lies in a wheel's package."""
BESIDE = {"CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "DESIGN.md", "LICENSE", "Makefile", "README.md", "SECURITY.md"}
NEEDED = {"headwater/py.typed", "headwater/page/index.html", "headwater/page/widgets.js", "headwater/__init__.py"}
TEXT = "for line in open("


def packages(place: Path, out: Path) -> tuple[Path, Path]:
    """The wheel and the sdist that it was made from."""
    told = run([sys.executable, "-m", "build", "--outdir", out, place], env=os.environ)
    assert "Successfully built" in told, told
    return next(out.glob("*.whl")), next(out.glob("*.tar.gz"))


def look_through(wheel: Path, sdist: Path) -> list[str]:
    """What is wrong with what they hold."""
    with zipfile.ZipFile(wheel) as inside:
        names = inside.namelist()
        scripts = [inside.read(name).decode() for name in names if name.endswith(".js")]
    with tarfile.open(sdist) as inside:
        listed = [name.partition("/")[2] for name in inside.getnames()]
    own = [name for name in names if ".dist-info/" not in name]
    built = re.compile(r"\.(map|pyc|d\.ts|so|log)$|node_modules|__pycache__|(^|/)\.(?!prettier|gitignore)|(^|/)(built|dist)/")
    return [
        *(f"wheel: {name} is missing" for name in NEEDED - set(names)),
        *(f"wheel: no {end} beside it" for end in ("/entry_points.txt", "/licenses/LICENSE") if not _ends(names, end)),
        *(f"wheel: {name} is outside the package" for name in own if not name.startswith("headwater/")),
        *(f"wheel: {name} is of no kind that belongs there" for name in own if Path(name).suffix not in KINDS),
        *(f"wheel: {name} is a test" for name in own if re.search(r"(^|/)(tests?/|test_|conftest)", name)),
        *("wheel: a script names a source map" for script in scripts if "sourceMappingURL" in script),
        *(f"sdist: {name} is missing" for name in BESIDE - set(listed)),
        *(f"sdist: {name} does not belong there" for name in listed if built.search(name)),
        *([f"wheel: {wheel.stat().st_size:,} bytes, more than {MOST_BYTES:,}"] if wheel.stat().st_size > MOST_BYTES else []),
    ]


def _ends(names: list[str], end: str) -> bool:
    return any(name.endswith(end) for name in names)


def install(wheel: Path, folder: Path) -> Path:
    """A virtual environment that holds the wheel and what it needs, and nothing else: where its programs are."""
    venv.create(folder, with_pip=True)
    pip = [folder / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run([*pip, "-c", ROOT / "constraints.txt", wheel], env=_bare(folder / "bin"))
    return folder / "bin"


def _bare(programs: Path) -> dict[str, str]:
    """Variables without anything of this checkout's, and a PATH with the environment's programs alone: no Node, no compiler."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV", "HEADWATER"))}
    return {**kept, "PATH": str(programs), "PYTHONUNBUFFERED": "1"}


def run(command: list, *, env, cwd: Path | None = None) -> str:
    """What a command prints; what it says of its failure is the error's text."""
    told = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, env=env, cwd=cwd)
    assert told.returncode == 0, f"{' '.join(map(str, command))}: {told.returncode}\n{told.stdout[-2000:]}{told.stderr[-4000:]}"
    return told.stdout


def smoke(programs: Path, folder: Path) -> dict[str, str]:
    """The main jobs, in an empty folder; what each came to."""
    env = _bare(programs)

    def headwater(*words: str) -> str:
        return run([programs / "headwater", *words], env=env, cwd=folder)

    where = run([programs / "python", "-c", "import headwater; print(headwater.__file__)"], env=env, cwd=folder).strip()
    assert Path(where).is_relative_to(programs.parent.resolve()), where
    explained = json.loads(headwater("explain", "one-layer", TEXT, "--json"))
    shown = headwater("demo", "--no-browser")
    headwater("atlas", "build", "two-layer", "--out", "small", "--k", "4", "--triples", "20", "--each", "1")
    found = json.loads(headwater("atlas", "search", "small", "--head", "L1H1", "--limit", "5", "--json"))
    assert len(found["rows"]) == 5
    headwater("atlas", "verify", "small")
    return {
        "import": where,
        "explain": f"logit {explained['value']:.3f}, certificate {explained['certificate']:.1e}",
        "demo": shown.strip().splitlines()[-1],
        "atlas": f"{found['total']:,} skip-trigrams, the strongest of lift {found['rows'][0]['lift']:+.3f}",
        "studio": _studio(programs, folder, env),
    }


def _studio(programs: Path, folder: Path, env: dict[str, str]) -> str:
    """Whether a studio serves its page and a river that adds up."""
    command = [programs / "headwater", "studio", "one-layer", "--port", "0", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env, cwd=folder) as process:
        try:
            found = next(filter(None, (re.search(r"(http://[\w.:]+)/\?token=(\S+)", line) for line in process.stdout)))
            page = _asked(f"{found[1]}/river", found[2]).decode()
            script = _asked(found[1] + page.split('src="')[1].split('"')[0], found[2])
            query = urllib.parse.urlencode({"model": "one-layer", "text": TEXT})
            river = json.loads(_asked(f"{found[1]}/api/river?{query}", found[2]))
        finally:
            process.terminate()
    assert len(script) > 10_000
    assert river["certificate"] <= river["bound"], river["certificate"]
    return f"page, {len(script):,} bytes of script, a river with certificate {river['certificate']:.1e}"


def _asked(address: str, token: str) -> bytes:
    request = urllib.request.Request(address, headers={"authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        return answer.read()


def main() -> int:
    """All of it, told as it goes."""
    with tempfile.TemporaryDirectory(prefix="headwater-release-") as place:
        out, empty = Path(place) / "dist", Path(place) / "empty"
        empty.mkdir()
        wheel, sdist = packages(ROOT, out)
        for file in (wheel, sdist):
            sys.stdout.write(f"{file.name}: {file.stat().st_size:,} bytes\n")
        if wrong := look_through(wheel, sdist):
            sys.stderr.write("\n".join(wrong) + "\n")
            return 1
        for what, told in smoke(install(wheel, Path(place) / "fresh"), empty).items():
            sys.stdout.write(f"{what}: {told}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
