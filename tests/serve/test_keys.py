"""The file of keys, and the allowance of each."""

from __future__ import annotations

import gzip
import stat
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

from ssmt.errors import UserError
from ssmt.serve import keys, limits
from ssmt.serve.keys import Keys, add_key, digest_of, read_keys, today
from ssmt.serve.limits import Accounts, Refusal
from tests.cli.test_bad_input import no_space_after

DIGEST = digest_of("secret")


def test_a_full_disk_leaves_the_other_keys_readable(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    add_key(path, "weblate", None)
    before = path.read_bytes()
    with no_space_after(len(before) + 10), pytest.raises(UserError, match=r"keys: cannot be written \(No space left"):
        add_key(path, "other", None)
    assert path.read_bytes() == before


def test_a_key_is_kept_as_a_hash_that_others_cannot_read(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    secret = add_key(path, "weblate", today() + timedelta(days=1))
    content = path.read_text(encoding="utf-8")
    assert secret not in content
    assert digest_of(secret) in content
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(secret) >= 43  # 256 bits
    other = add_key(path, "other", None)
    names = Keys(path)
    assert (names.name_of(secret), names.name_of(other), names.name_of(secret[:-1])) == ("weblate", "other", None)
    with pytest.raises(UserError, match="has a key called other already"):
        add_key(path, "other", None)
    with pytest.raises(UserError, match="is over"):
        add_key(path, "late", today() - timedelta(days=1))
    with pytest.raises(UserError, match="cannot name a key"):
        add_key(path, "two words", None)
    with pytest.raises(UserError, match="Is a directory"):
        add_key(tmp_path, "directory", None)
    with pytest.raises(UserError, match="cannot be written"):
        add_key(tmp_path / "nowhere" / "keys", "name", None)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("name", r"keys, line 2: expected a name"),
        (f"name {DIGEST[1:]} never", r"keys, line 2: expected a name"),
        (f"name {DIGEST} 2030-13-01", r"keys, line 2: '2030-13-01' is no day"),
        (f"first {DIGEST} never", r"keys, line 2: there is another key called first"),
    ],
)
def test_bad_lines_are_named(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "keys").write_text(f"first {DIGEST} never\n{line}\n", encoding="utf-8")
    with pytest.raises(UserError, match=message):
        read_keys(tmp_path / "keys")


def test_keys_are_added_to_a_file_without_a_last_line_end(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text(f"first {DIGEST} never", encoding="utf-8")
    secret = add_key(path, "second", None)
    assert [key.name for key in read_keys(path)] == ["first", "second"]
    assert Keys(path).name_of(secret) == "second"


def test_of_several_who_add_a_key_of_one_name_at_once_one_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_slowly(path: Path) -> list[keys.Key]:
        found = read_keys(path)
        time.sleep(0.01)  # so that the others come in between, if they can
        return found

    (tmp_path / "keys").touch()
    monkeypatch.setattr(keys, "read_keys", read_slowly)

    def add(number: int) -> bool:
        try:
            add_key(tmp_path / "keys", "weblate", None)
        except UserError:
            return False
        return True

    with ThreadPoolExecutor(5) as threads:
        assert sum(threads.map(add, range(5))) == 1
    assert [key.name for key in read_keys(tmp_path / "keys")] == ["weblate"]


@pytest.mark.parametrize("content", [b"a sentence of mine\n", gzip.compress(b"")], ids=["text", "gzip"])
def test_no_key_is_added_to_what_is_no_file_of_keys(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "text").write_bytes(content)
    with pytest.raises(UserError, match="text, line 1"):
        add_key(tmp_path / "text", "name", None)
    assert (tmp_path / "text").read_bytes() == content


def test_a_file_that_is_being_written_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text("# nobody\n\n", encoding="utf-8")
    with pytest.raises(UserError, match="has no key"):
        Keys(path)
    path.write_text(f"first {DIGEST} never\n", encoding="utf-8")
    names = Keys(path)
    path.write_text("fir", encoding="utf-8")
    assert names.name_of("secret") == "first"
    path.unlink()
    assert names.name_of("secret") == "first"
    path.write_text(f"second {DIGEST} never\n", encoding="utf-8")
    assert names.name_of("secret") == "second"


@pytest.mark.parametrize("content", ["other {other} never\n  # a note\n", None], ids=["a bad line", "no file"])
def test_a_key_that_is_gone_from_a_file_that_cannot_be_read_is_revoked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, content: str | None
) -> None:
    """Not at once, for the file may be being written; and it is said once."""
    path, other = tmp_path / "keys", digest_of("other")
    path.write_text(f"first {DIGEST} never\nother {other} never\n", encoding="utf-8")
    names = Keys(path)
    path.unlink()
    if content is not None:
        path.write_text(content.format(other=other), encoding="utf-8")
    assert names.name_of("secret") == "first"
    monkeypatch.setattr(keys, "WRITING", -1.0)
    assert names.name_of("secret") is None
    assert names.name_of("other") == (None if content is None else "other")
    assert len(caplog.messages) == 1
    assert DIGEST not in caplog.text
    path.write_text(f"first {DIGEST} never\n", encoding="utf-8")
    assert (names.name_of("secret"), names.name_of("other")) == ("first", None)


def test_what_the_service_is_too_busy_for_costs_nothing() -> None:
    accounts = Accounts(600, lambda: 0.0)
    with pytest.raises(Refusal), accounts.spending("a", 900):
        raise Refusal(503, "busy")
    assert (accounts.of("a").characters, accounts.of("a").allowance) == (0, 600.0)
    with pytest.raises(Refusal), accounts.spending("a", 900):
        raise Refusal(400, "wrong")
    assert accounts.of("a").characters == 900


def test_allowances_fill_up_steadily(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    accounts = Accounts(600, lambda: now[0])
    accounts.spend("a", 900)  # overdrawn by 300: 30 seconds
    with pytest.raises(Refusal, match="600 characters a minute") as refusal:
        accounts.spend("a", 1)
    assert (refusal.value.status, refusal.value.retry_after) == (429, 30.0)
    accounts.spend("b", 1)
    now[0] = 31
    accounts.spend("a", 1)
    assert accounts.of("a").characters == 901
    now[0] = 1e6
    accounts.spend("a", 601)  # no more than a minute's is saved up
    with pytest.raises(Refusal):
        accounts.spend("a", 1)
    monkeypatch.setattr(limits, "MOST_ACCOUNTS", 2)
    accounts.of("b")
    accounts.of("c")
    assert accounts.of("a").characters == 0  # forgotten
    Accounts(None).spend("a", 10**9)
