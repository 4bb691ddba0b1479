"""A wheel or an sdist without the studio's page would look whole and not be: it is refused."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PageIsThere(BuildHookInterface[Any]):
    """Checks before anything is packed; an editable install finds the page later, in the checkout."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Refuse to pack a checkout whose page has not been built."""
        del build_data
        if version != "editable" and not (Path(self.root) / "src/headwater/page/index.html").is_file():
            raise RuntimeError("src/headwater/page is not there: build the studio's page first, with make page")
