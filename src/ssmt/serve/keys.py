"""Keys of callers: random, stored as hashes, with an expiry.

A file has one key a line: `NAME HASH EXPIRY`, where EXPIRY is a day (the last on which it holds, in UTC) or `never`.
The hash is SHA-256: a key of 256 random bits cannot be guessed, so nothing slower is needed.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import hmac
import logging
import math
import os
import re
import secrets
import time
from dataclasses import dataclass
from datetime import date, datetime, timezone
from io import FileIO
from pathlib import Path

from ssmt.errors import UserError
from ssmt.files import read_description_lines, reason

NEVER = "never"
WRITING = 1.0  # seconds in which whoever changes the file has written it
log = logging.getLogger("ssmt.serve")
_NAME = re.compile(r"[\w.@-]{1,64}")


@dataclass(frozen=True)
class Key:
    name: str
    digest: str
    expires: date | None

    @property
    def line(self) -> str:
        return f"{self.name} {self.digest} {self.expires.isoformat() if self.expires else NEVER}\n"


def digest_of(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def today() -> date:
    return datetime.now(timezone.utc).date()


def read_keys(path: Path) -> list[Key]:
    keys: list[Key] = []
    for number, line in enumerate(read_description_lines(path), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        fields = line.split()
        where = f"{path}, line {number}"
        if len(fields) != 3 or not _NAME.fullmatch(fields[0]) or not re.fullmatch("[0-9a-f]{64}", fields[1]):
            raise UserError(f"{where}: expected a name, the SHA-256 of a key, and a day such as 2030-12-31 or {NEVER}")
        try:
            expires = None if fields[2] == NEVER else date.fromisoformat(fields[2])
        except ValueError:
            raise UserError(f"{where}: {fields[2]!r} is no day such as 2030-12-31") from None
        if fields[0] in [key.name for key in keys]:
            raise UserError(f"{where}: there is another key called {fields[0]}")
        keys.append(Key(fields[0], fields[1], expires))
    return keys


def add_key(path: Path, name: str, expires: date | None) -> str:
    """Write a new key's hash into a file, which only its owner can read, and return the key, which is kept nowhere."""
    if not _NAME.fullmatch(name):
        raise UserError(f"{name!r} cannot name a key: letters, digits, - _ . @, at most 64")
    if expires is not None and expires < today():
        raise UserError(f"{expires.isoformat()} is over")
    secret = secrets.token_urlsafe(32)
    try:
        with open(os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600), "r+b", buffering=0) as stream:
            _wait_for_others(stream)
            if name in [key.name for key in read_keys(path)]:
                raise UserError(f"{path}: has a key called {name} already; choose another name, or remove its line")
            lines = stream.read()
            end = b"\n" if lines and not lines.endswith(b"\n") else b""  # as some editors leave a file
            line = end + Key(name, digest_of(secret), expires).line.encode()
            if stream.write(line) < len(line):  # of half a line nobody could read the file
                stream.truncate(len(lines))
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({reason(error)})") from None
    return secret


def _wait_for_others(stream: FileIO) -> None:
    """Until no other process adds a key: two of one name would make the file unreadable."""
    if os.name == "posix":
        import fcntl

        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(stream, fcntl.LOCK_EX)  # goes when the file is closed


class Keys:
    """The keys of a file, read again when it changes: a line that is removed is a key that is revoked."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read_at = self._stamp()
        self._keys = read_keys(path)
        self._bad_since = math.inf  # when the file was first seen that cannot be read
        if not self._keys:
            raise UserError(f"{path}: has no key, so that nobody could use the service")

    def name_of(self, secret: str) -> str | None:
        """Whose key this is, none for nobody's. All keys are compared, each in constant time."""
        self._refresh()
        digest = digest_of(secret)
        found = [key for key in self._keys if hmac.compare_digest(key.digest, digest)]
        return next((key.name for key in found if key.expires is None or key.expires >= today()), None)

    def _stamp(self) -> tuple[int, int] | None:
        try:
            status = os.stat(self.path)
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size

    def _refresh(self) -> None:
        if (stamp := self._stamp()) == self._read_at:
            return
        try:
            self._keys, self._read_at, self._bad_since = read_keys(self.path), stamp, math.inf
        except UserError as error:  # it may be being written: for a moment the keys of before hold
            if self._bad_since == math.inf:
                self._bad_since = time.monotonic()
                log.error("%s. Until it can be read, only those of its keys are valid that still stand in it", error)
            elif time.monotonic() - self._bad_since > WRITING:
                self._keys = [key for key in self._keys if key.digest in self._text()]

    def _text(self) -> str:
        """The file as it is; nothing if there is none."""
        try:
            return "\n".join(read_description_lines(self.path))
        except UserError:
            pass
        try:
            return self.path.read_bytes().decode("utf-8", "replace") if self.path.is_file() else ""
        except OSError:
            return ""
