"""The zip container of torch's files: one stored pickle and one stored entry for each storage, nothing else."""

import struct
import zipfile
from dataclasses import dataclass
from typing import Any

from headwater.errors import ModelFileError

MOST_PICKLE_BYTES = 64 * 2**20
MOST_DIRECTORY_BYTES = 8 * 2**20
AGAIN = "save it again with a current torch.save"


@dataclass(frozen=True, slots=True)
class Archive:
    """A torch file's pickle, and for each storage the byte it starts at and how many it has."""

    zip: zipfile.ZipFile
    pickle: bytes
    storages: dict[str, tuple[int, int]]


_ZIP_ERRORS = (
    zipfile.BadZipFile,
    struct.error,
    NotImplementedError,
    RuntimeError,
    ValueError,
    OSError,
    EOFError,
    OverflowError,
)
_EXTRAS = {"version", "byteorder", ".format_version", ".storage_alignment", ".data/serialization_id"}


def open_archive(file: Any, size: int) -> Archive:
    """The container of an open file of ``size`` bytes, all its entries plain, within the file and there once."""
    try:
        if file.read(4) != b"PK\3\4":
            raise ModelFileError("no zip file", "a torch file of version 1.6 or later", AGAIN)
        _check_directory(file, size)
        archive = zipfile.ZipFile(file)
        members = _members(archive, size)
        return Archive(archive, _pickle_bytes(archive, members), _storages(file, members, size))
    except _ZIP_ERRORS as reason:
        if isinstance(reason, ModelFileError):
            raise
        raise ModelFileError(f"a damaged zip file ({reason!s:.120})", "a whole torch file", "fetch or save it again") from None


def _check_directory(file: Any, size: int) -> None:
    """The table of contents ends the file and is small: what follows it could be read as a second one."""
    file.seek(max(0, size - 98))
    tail = file.read(98)
    if tail[-22:-18] != b"PK\5\6" or tail[-2:] != b"\0\0":
        raise ModelFileError("the zip file's table of contents does not end it", "a whole torch file", "fetch or save it again")
    length = struct.unpack("<L", tail[-10:-6])[0]
    if tail[-42:-38] == b"PK\6\7":
        length = struct.unpack("<Q", tail[-58:-50])[0]
    if length > MOST_DIRECTORY_BYTES:
        raise ModelFileError(f"a table of contents of {length:,} bytes", f"at most {MOST_DIRECTORY_BYTES:,}", AGAIN)


def _members(archive: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
    """The zip entries under their names within the one folder that torch writes."""
    members: dict[str, zipfile.ZipInfo] = {}
    total = 0
    for member in archive.infolist():
        name = member.filename.partition("/")[2]
        storage = name.startswith("data/") and name[5:].isascii() and name[5:].isdigit()
        if not (storage or name == "data.pkl" or name in _EXTRAS) or name in members:
            what = "twice" if name in members else "not torch's"
            raise ModelFileError(f"the zip entry {member.filename!r:.120} is {what}", "the entries of a torch.save file", AGAIN)
        if member.compress_type != zipfile.ZIP_STORED or member.compress_size != member.file_size or member.flag_bits & 1:
            raise ModelFileError(f"the zip entry {member.filename!r:.120} is compressed", "plain bytes", AGAIN)
        total += member.file_size
        members[name] = member
    if total > size:
        raise ModelFileError(f"zip entries of {total:,} bytes in a file of {size:,}", "entries within the file", AGAIN)
    return members


def _pickle_bytes(archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo]) -> bytes:
    """``data.pkl``, its checksum compared."""
    if "data.pkl" not in members:
        raise ModelFileError("no data.pkl in the zip file", "a torch file of version 1.6 or later", AGAIN)
    if "byteorder" in members and archive.read(members["byteorder"]) != b"little":
        raise ModelFileError("numbers that are not little-endian", "the byte order of this machine", AGAIN)
    if members["data.pkl"].file_size > MOST_PICKLE_BYTES:
        given = f"a pickle of {members['data.pkl'].file_size:,} bytes"
        raise ModelFileError(given, f"at most {MOST_PICKLE_BYTES:,}", "save the tensors alone")
    return archive.read(members["data.pkl"])


def _storages(file: Any, members: dict[str, zipfile.ZipInfo], size: int) -> dict[str, tuple[int, int]]:
    storages: dict[str, tuple[int, int]] = {}
    for name, member in members.items():
        if name.startswith("data/"):
            file.seek(member.header_offset)
            name_length, extra_length = struct.unpack("<26x2H", file.read(30))
            start = member.header_offset + 30 + name_length + extra_length
            if start + member.file_size > size:
                raise ModelFileError(f"the zip entry {member.filename!r:.120} ends after the file", "a whole file", AGAIN)
            storages[name[5:]] = start, member.file_size
    return storages


def check_sums(archive: Archive) -> None:
    """Compare the checksum of every entry, which reads the whole file."""
    try:
        bad = archive.zip.testzip()
    except _ZIP_ERRORS as reason:
        raise ModelFileError(f"a damaged zip file ({reason!s:.120})", "a whole torch file", "fetch or save it again") from None
    if bad is not None:
        raise ModelFileError(
            f"the checksum of {bad!r:.120} is wrong", "the bytes that were saved", "fetch it again: bits have changed"
        )
