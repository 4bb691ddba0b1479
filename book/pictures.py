"""Pictures of the studio for the README and the book: every screen, both languages, both themes, from a real studio in a real browser.

``python book/pictures.py TRAINING``: TRAINING is the folder of a training with snapshots. Those of the light theme go to ``docs/pictures`` and ``docs/pt/pictures``, all of
them to ``book/built/pictures``, to be looked at.
"""

import sys
from pathlib import Path

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
SCREENS = {
    "river": "/river?model=two-layer&text=one+red+two+blue+three+green+one+red+two&token=+b",
    "attention": "/attention?model=two-layer&text=one+red+two+blue+three+green+one+red+two&head=L1H2&dest=15&source=4",
    "stream": "/stream?model=block&text=for+line+in+open(",
    "atlas": "/atlas?model=one-layer",
    "training": "/training",
    "documents": "/documents",
}
"""What is chosen on each screen that is pictured."""
SIZE = {"width": 1366, "height": 860}
TALL = {"width": 1366, "height": 1230}
"""For the river, whole."""


def main(training: Path) -> None:
    """Start a studio, open every screen, and keep what is seen."""
    sys.path.insert(0, str(HERE.parent / "tests"))
    from playwright.sync_api import sync_playwright

    from studio_server import chromium_place, studio

    out = HERE / "built" / "pictures"
    out.mkdir(parents=True, exist_ok=True)
    with (
        studio("one-layer", "two-layer", "block", training.absolute(), folder=HERE.parent) as running,
        sync_playwright() as player,
    ):
        browser = player.chromium.launch(executable_path=chromium_place(), args=["--no-sandbox"])
        for theme in ("light", "dark"):
            for language in ("en", "pt"):
                page = browser.new_page(viewport=SIZE, device_scale_factor=1.5)
                page.goto(running.door)
                page.wait_for_url("**/")
                for name, place in SCREENS.items():
                    page.set_viewport_size(TALL if name == "river" else SIZE)
                    page.goto(f"{running.address}{place}{'&' if '?' in place else '?'}lang={language}&theme={theme}")
                    page.get_by_test_id(f"screen-{name}").wait_for()
                    page.wait_for_load_state("networkidle")
                    page.wait_for_timeout(2500)
                    page.screenshot(path=out / f"{name}-{language}-{theme}.png")
                page.close()
        browser.close()
    for language, folder in (("en", DOCS / "pictures"), ("pt", DOCS / "pt" / "pictures")):
        folder.mkdir(exist_ok=True)
        for name in SCREENS:
            _smaller(out / f"{name}-{language}-light.png", folder / f"{name}.png")


def _smaller(whole: Path, place: Path) -> None:
    """A picture of 256 colours: a third of the bytes, and nothing that can be seen is lost."""
    from PIL import Image

    Image.open(whole).convert("RGB").quantize(256, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE).save(
        place, optimize=True
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
