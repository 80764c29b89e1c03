from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from triage.errors import ConfigError
from triage.library import quarantine

if TYPE_CHECKING:
    from pathlib import Path

A, B = "a" * 64, "b" * 64


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "quarantine.json"


def test_add_read_release(path: Path) -> None:
    assert quarantine.read(path) == {}
    quarantine.add(path, A, "blocked the loop for 2 s")
    quarantine.add(path, B, "again")
    quarantine.add(path, A, "a later reason")
    assert quarantine.read(path) == {A: "blocked the loop for 2 s", B: "again"}
    assert quarantine.release(path, A)
    assert not quarantine.release(path, A)
    assert quarantine.read(path) == {B: "again"}


def test_release_without_a_file_changes_nothing(path: Path) -> None:
    assert not quarantine.release(path, A)
    assert not path.parent.exists()


def test_threads_lose_no_entry(path: Path) -> None:
    digests = [f"{number:064x}" for number in range(16)]
    start = threading.Barrier(len(digests))

    def work(digest: str) -> None:
        start.wait()
        quarantine.add(path, digest, "slow")

    threads = [threading.Thread(target=work, args=(digest,)) for digest in digests]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(quarantine.read(path)) == digests
    assert not list(path.parent.glob("*.tmp"))


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"\xff", b'{"x": "y"}', b'{"%s": 1}' % A.encode(), b"[" * 100_000]
)
def test_a_damaged_file_says_what_to_do(path: Path, body: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(body)
    for act in (
        lambda: quarantine.read(path),
        lambda: quarantine.add(path, A, "slow"),
        lambda: quarantine.release(path, A),
    ):
        with pytest.raises(ConfigError, match=r"quarantine\.json.*remove it"):
            act()
    assert path.read_bytes() == body


def test_only_digests_are_quarantined(path: Path) -> None:
    with pytest.raises(ValueError, match="SHA-256"):
        quarantine.add(path, "obs_a", "slow")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(reason=st.text())
def test_any_reason_survives(reason: str, tmp_path: Path) -> None:
    path = tmp_path / "quarantine.json"
    path.unlink(missing_ok=True)
    quarantine.add(path, A, reason)
    assert quarantine.read(path) == {A: reason}
