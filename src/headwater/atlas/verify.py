"""Is an atlas still what was built? Every byte is read and held against the manifest."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from headwater.atlas.manifest import MANIFEST, Manifest, StoredFile, check_is_there, paths_in, read_manifest, sha256_of
from headwater.errors import ModelFileError
from headwater.files.plain import file_size
from headwater.show.text import written
from headwater.show.values import Progress, Table, silent

What: TypeAlias = Literal["changed", "size", "swapped", "missing", "extra", "unreadable", "manifest"]


@dataclass(frozen=True)
class Finding:
    """One thing that is not as it was written."""

    path: str
    what: What
    words: str


@dataclass(frozen=True, kw_only=True)
class Verification:
    """What was found in an atlas' folder: nothing, where all is well."""

    folder: Path
    files: int
    """How many there are to be, with the manifest."""
    bytes: int
    """How many of them were read."""
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether every file is there with every bit, and no other file."""
        return not self.findings

    def plain(self) -> dict[str, Any]:
        """For programs."""
        findings = [{"path": each.path, "what": each.what, "words": each.words} for each in self.findings]
        return {"path": str(self.folder), "ok": self.ok, "files": self.files, "bytes": self.bytes, "findings": findings}

    def table(self) -> Table:
        """For people."""
        verdict = "as they were written" if self.ok else f"{len(self.findings)} of them not as written"
        rows = tuple((each.path, each.what, each.words) for each in self.findings)
        title = f"{self.folder}: {self.files:,} files, {self.bytes:,} bytes read, {verdict}"
        return Table(title=title, columns=("file", "found", "") if rows else (), rows=rows)

    def __str__(self) -> str:
        return written(self.table()) if self.findings else self.table().title


def verify(folder: Path, progress: Progress = silent) -> Verification:
    """Read every byte of an atlas and tell what has changed, gone, come or been swapped since it was built.

    Nothing is believed of a folder whose manifest is damaged: that is then the one finding.
    """
    check_is_there(folder)
    try:
        manifest = read_manifest(folder)
    except ModelFileError as error:
        return Verification(folder=folder, files=0, bytes=0, findings=(Finding(MANIFEST, "manifest", error.given),))
    look = _Look(folder, manifest, progress)
    findings = sorted([*look.at_listed(), *look.at_others()], key=lambda finding: finding.path)
    return Verification(folder=folder, files=len(manifest.files) + 1, bytes=look.read, findings=tuple(findings))


@dataclass
class _Look:
    folder: Path
    manifest: Manifest
    progress: Progress
    read: int = 0
    owners: dict[str, str] = field(init=False)
    """Whose bytes have which hash."""

    def __post_init__(self) -> None:
        self.owners = {file.sha256: file.path for file in self.manifest.files}
        self.read = file_size(self.folder / MANIFEST)

    def at_listed(self) -> Iterator[Finding]:
        """What is the matter with files that the manifest lists."""
        total, done = sum(file.bytes for file in self.manifest.files) or 1, 0
        for file in self.manifest.files:
            self.progress(file.path, done / total)
            finding = self._at(file)
            if finding is not None:
                yield finding
            done += file.bytes

    def at_others(self) -> Iterator[Finding]:
        """Files that it does not list."""
        listed = {MANIFEST, *(file.path for file in self.manifest.files)}
        sizes = {file.bytes for file in self.manifest.files}
        for path in sorted(set(paths_in(self.folder)) - listed):
            place = self.folder / path
            owner = None
            if place.is_file() and not place.is_symlink() and place.stat().st_size in sizes:
                owner = self.owners.get(sha256_of(place))
            yield Finding(path, "extra", f"holds the bytes of {owner}" if owner else "the manifest does not list it")

    def _at(self, file: StoredFile) -> Finding | None:
        place = self.folder / file.path
        if place.is_symlink():
            return Finding(file.path, "changed", "is a link now")
        if not place.exists():
            return Finding(file.path, "missing", f"{file.bytes:,} bytes are gone")
        try:
            size, digest = file_size(place), sha256_of(place)
        except (ModelFileError, OSError) as error:
            return Finding(file.path, "unreadable", error.given if isinstance(error, ModelFileError) else str(error))
        self.read += size
        return None if digest == file.sha256 else self._other(file, size, digest)

    def _other(self, file: StoredFile, size: int, digest: str) -> Finding:
        if digest in self.owners:
            return Finding(file.path, "swapped", f"holds the bytes of {self.owners[digest]}")
        if size != file.bytes:
            return Finding(file.path, "size", f"{size:,} bytes instead of {file.bytes:,}")
        return Finding(file.path, "changed", f"its SHA-256 is {digest[:12]}… instead of {file.sha256[:12]}…")
