"""What a section of the report found: how often something was done to Headwater, and what was lost."""

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass
class Tally:
    """One line of the table. A disaster is survived when the end is told as it should be and nothing that was whole before is lost."""

    what: str
    tried: int = 0
    lost: list[str] = field(default_factory=list)
    """What went wrong, a line for each."""
    notes: list[str] = field(default_factory=list)
    """What else was measured."""

    @property
    def survived(self) -> int:
        """How often all was well."""
        return self.tried - len(self.lost)

    def count(self, complaint: str | None) -> None:
        """One more try, and what is to be complained of, if anything."""
        self.tried += 1
        if complaint:
            self.lost.append(complaint)

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "survived": self.survived}
