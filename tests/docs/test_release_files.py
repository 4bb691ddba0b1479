"""What goes with a release: versions agree, and what the files say is so."""

import re
import tomllib
from pathlib import Path

import release
from headwater.atlas.patterns import MOST_OF_REGEX
from headwater.files import archives, gguf, pickles, plain, safetensors
from headwater.model.config import MOST
from headwater.studio import limits
from headwater.text import schema, tokenizer
from headwater.version import __version__

ROOT = Path(__file__).parents[2]
CITATION, CHANGES, SECURITY, CONTRIBUTING = (
    (ROOT / name).read_text() for name in ("CITATION.cff", "CHANGELOG.md", "SECURITY.md", "CONTRIBUTING.md")
)


def test_all_say_the_same_version_and_date():
    cited = dict(re.findall(r"^(version|date-released): (\S+)$", CITATION, re.MULTILINE))
    newest = re.search(r"^## (\S+) \((.*)\)$", CHANGES, re.MULTILINE)
    assert cited == {"version": __version__, "date-released": newest[2]}
    assert newest[1] == __version__
    assert f"headwater-{__version__}-py3-none-any.whl" in (ROOT / "README.md").read_text()


def test_the_readme_says_how_large_a_wheel_may_be():
    assert f"(below {release.MOST_BYTES // 10**6} MB, models and page included)" in (ROOT / "README.md").read_text()


def test_the_citation_names_what_the_package_is():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert f'abstract: "{project["description"]}"' in CITATION
    assert f"license: {project['license']}" in CITATION
    assert re.findall(r"^  - ([\w ]+)$", CITATION, re.MULTILINE) == project["keywords"]


def test_the_bounds_are_those_of_the_parsers():
    rows = dict(re.findall(r"^\| (.+?) \| .+ \| (.+) \|$", SECURITY, re.MULTILINE))
    mega = 2**20
    assert rows["JSON"] == f"{plain.MOST_BYTES // mega} MB, depth {plain.MOST_DEPTH}"
    assert rows["safetensors"] == f"{safetensors.MOST_HEADER_BYTES // mega} MB of header"
    steps = f"{pickles.MOST_STEPS:,} steps, depth {pickles.MOST_DEPTH}"
    assert rows["pickles (`.pt`, `.bin`)"] == f"{archives.MOST_PICKLE_BYTES // mega} MB of pickle, {steps}"
    assert rows["GGUF"] == f"{gguf.MOST_HEADER_BYTES // mega} MB of header, {gguf.MOST_VALUES:,} values"
    assert rows["tokenizers"] == f"{tokenizer.MOST_BYTES // mega} MB, {schema.MOST_TOKENS:,} tokens"
    assert MOST["vocab"] == MOST["context"]
    assert rows["models"] == f"vocabulary and context {MOST['vocab']:,}, layers {MOST['layers']:,}"
    assert rows["regular expressions in searches"] == f"{MOST_OF_REGEX} letters"


def test_the_limits_are_those_of_the_studio():
    said = f"Bodies are at most {limits.BODY_BYTES // 1024} KB, texts {limits.TEXT:,} letters, an answer {limits.ROWS:,} rows; "
    assert said + f"a question ends after {limits.SECONDS:.0f} seconds" in SECURITY


def test_what_they_name_is_there():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for text in (CONTRIBUTING, SECURITY):
        assert set(re.findall(r"\bmake ([a-z]+-?[a-z]+)(?=[ `;])", text)) <= targets | {"that"}
        for place in re.findall(r"`((?:src|tests|web|docs|fuzz|book)/[\w./]+)`", text):
            assert (ROOT / place).exists(), place
        for place in re.findall(r"\]\(([\w./-]+)", text):
            assert (ROOT / place).exists(), place


def test_an_sdist_holds_them():
    packed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert {"/CITATION.cff", "/CONTRIBUTING.md", "/SECURITY.md", "/CHANGELOG.md", "/DESIGN.md"} <= set(packed)
