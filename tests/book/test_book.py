"""The built book: every claim has its place in both languages, every link leads somewhere, and nothing comes from elsewhere."""

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from headwater.claims.registry import all_claims

SITE = Path(__file__).parents[2] / "book" / "built" / "site"
pytestmark = pytest.mark.docs


class Page(HTMLParser):
    """The ids, links and resources of one page."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.resources = set(), set(), set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        if found.get("id"):
            self.ids.add(found["id"])
        if tag == "a" and found.get("href"):
            self.links.add(found["href"])
        if tag in ("img", "script", "source", "iframe") and found.get("src"):
            self.resources.add(found["src"])
        if tag == "link" and found.get("rel") != "canonical" and found.get("href"):
            self.resources.add(found["href"])


@pytest.fixture(scope="module")
def pages():
    found = {path: Page(path.read_text()) for path in SITE.rglob("*.html") if path.name != "404.html"}
    assert found, "make docs builds it"
    return found


@pytest.mark.parametrize("language", ["en", "pt"])
def test_every_claim_has_its_place(pages, language):
    folder = SITE / "documents" if language == "en" else SITE / "pt" / "documents"
    for claim in all_claims().values():
        assert claim.id in pages[folder / f"{claim.document}.html"].ids


@pytest.mark.parametrize("language", ["en", "pt"])
def test_every_figure_is_there_in_both_themes(pages, language):
    folder = SITE / "documents" if language == "en" else SITE / "pt" / "documents"
    for claim in all_claims().values():
        if claim.verdict == "figure":
            for theme in ("light", "dark"):
                name = f"figures/{claim.id}.{theme}.svg"
                assert (folder / name).stat().st_size > 1000
                assert f"{name}#only-{theme}" in pages[folder / f"{claim.document}.html"].resources


def test_every_link_leads_somewhere(pages):
    for path, page in pages.items():
        for link in page.links | page.resources:
            parts = urlsplit(link)
            if parts.scheme or link.startswith("#__"):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert target.exists(), f"{path.relative_to(SITE)}: {link}"
            if parts.fragment and target in pages and not parts.fragment.startswith("only-"):
                assert unquote(parts.fragment) in pages[target].ids, f"{path.relative_to(SITE)}: {link}"


def test_nothing_comes_from_elsewhere(pages):
    for page in pages.values():
        assert not [resource for resource in page.resources if urlsplit(resource).netloc]
    for sheet in SITE.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(https?:)?//", sheet.read_text())


def test_no_formula_was_left_as_it_was_typed(pages):
    for path in pages:
        if path.parent.name == "documents":
            text = re.sub(r"<(pre|code|annotation)\b.*?</\1>", "", path.read_text(), flags=re.DOTALL)
            assert not re.search(r"\$[^$<]*\\[a-z]+", text), path
            formulas = re.findall(r"<math.*?</math>", text, re.DOTALL)
            assert formulas
            assert not [formula for formula in formulas if "\\" in formula]
