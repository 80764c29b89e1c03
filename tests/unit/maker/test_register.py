"""What is registered, what is written beside it, and what is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.unit.fallback.agent_world import ScriptedModel
from tests.unit.maker.maker_world import (
    AT,
    MASK,
    NODE,
    PROMPTS,
    FakeCollector,
    FakeGates,
    maker,
    request,
    sop,
    source,
    tool,
    trace,
)
from tests.unit.maker.test_ambiguity import SECOND, found, tried, wrong
from triage.errors import ConfigError, InvalidFiles
from triage.library.manifest import VersionStatus, read_manifest
from triage.maker.documents import made_document
from triage.maker.model import Made
from triage.maker.register import Registrar, read_ambiguities
from triage.maker.traces import load_traces
from triage.ports import WatchFinding

AMBIGUOUS: list[WatchFinding] = found(*(tried(n, wrong(1), blamed=SECOND) for n in range(3)))


def registrar(root: Path, **more: Any) -> Registrar:
    parts: dict[str, Any] = {
        "root": root,
        "sop": sop(),
        "mask": MASK,
        "prompts": PROMPTS,
        "model": "small-1",
    }
    return Registrar(**{**parts, **more})


async def made(*replies: Any, refused: tuple[str, ...] = (), **more: Any) -> Made:
    model = ScriptedModel(*(replies or (tool(7), "Lower.", tool(5))))
    return await maker(
        model, gates=FakeGates(*refused), collector=FakeCollector(trace("case-1"))
    ).make(request(**more))


def record(root: Path, name: str) -> Any:
    return orjson.loads((root / NODE / "made" / name).read_bytes())


# --- nothing is registered ----------------------------------------------------------------------


@pytest.mark.parametrize("refused", ["policy", "budget", "heldout"])
async def test_a_gate_that_refuses_is_never_overridden(tmp_path: Path, refused: str) -> None:
    with pytest.raises(ConfigError, match="every gate"):
        registrar(tmp_path).register(await made(refused=(refused,)), [], at=AT)
    assert not (tmp_path / NODE).exists()


async def test_what_no_gate_looked_at_is_not_registered(tmp_path: Path) -> None:
    unseen = (await made())._replace(gates=())
    assert unseen.passed
    with pytest.raises(ConfigError, match="every gate"):
        registrar(tmp_path).register(unseen, [], at=AT)
    nothing = await made("No.")
    with pytest.raises(ConfigError, match="every gate"):
        registrar(tmp_path).register(nothing, [], at=AT)


async def test_a_source_that_the_policy_refuses_is_refused_by_the_library_too(
    tmp_path: Path,
) -> None:
    good = await made()
    assert good.best is not None
    candidate = good.best.candidate._replace(text=source(5) + "\nimport os\n")
    bad = good._replace(best=good.best._replace(candidate=candidate))
    with pytest.raises(InvalidFiles, match="imports `os`"):
        registrar(tmp_path).register(bad, [], at=AT)
    assert not (tmp_path / NODE / "made").exists()


async def test_a_record_that_cannot_be_written_says_that_the_version_is_there(
    tmp_path: Path,
) -> None:
    folder = tmp_path / NODE
    folder.mkdir()
    (folder / "made").write_text("in the way")
    with pytest.raises(ConfigError, match="version 1 is registered, but its record"):
        registrar(tmp_path).register(await made(), [], at=AT)
    assert read_manifest(tmp_path, NODE)[0].version(1) is not None


async def test_a_last_record_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    folder = tmp_path / NODE
    folder.mkdir()
    (folder / "made").write_text("in the way")
    with pytest.raises(ConfigError, match="made"):
        registrar(tmp_path).keep(await made("No."), [])


# --- a version ----------------------------------------------------------------------------------


async def test_a_version_is_a_candidate_with_all_that_the_manifest_asks(tmp_path: Path) -> None:
    done = registrar(tmp_path, gap="gap-1", note="more queries allowed: slow").register(
        await made(), [], at=AT
    )
    assert done.version == 1
    manifest, _ = read_manifest(tmp_path, NODE)
    entry = manifest.version(1)
    assert entry is not None
    assert (entry.status, entry.maker) == (VersionStatus.CANDIDATE, "triage make (small-1)")
    assert (entry.train_passed, entry.train_total) == (6, 6)
    assert (entry.heldout_passed, entry.heldout_total) == (2, 2)
    assert (entry.max_queries, entry.gap, entry.approver) == (1, "gap-1", "")
    assert entry.sop_text_sha256 == sop().nodes[NODE].text_sha256
    assert manifest.active is None
    assert manifest.history[-1].note == "more queries allowed: slow"
    assert (tmp_path / NODE / "v1.py").read_text() == source(5)
    assert [one.origin for one in load_traces(tmp_path, NODE)] == ["case-1"]


async def test_who_answers_for_it_may_be_named(tmp_path: Path) -> None:
    registrar(tmp_path, maker="ann").register(await made(), [], at=AT)
    registrar(tmp_path).register(await made(), [], at=AT)
    manifest, _ = read_manifest(tmp_path, NODE)
    assert [one.maker for one in manifest.versions] == ["ann", "triage make (small-1)"]


async def test_the_record_holds_all_that_led_to_it_masked(tmp_path: Path) -> None:
    leaky = "It is hunter2-hunter2's fault."
    done = registrar(tmp_path).register(await made(tool(7), leaky, tool(5)), AMBIGUOUS, at=AT)
    kept = record(tmp_path, "v1.json")
    assert "hunter2" not in orjson.dumps(kept).decode()
    assert kept["version"] == done.version
    assert kept["prompt_version"] == PROMPTS.version
    assert kept["prompt_sha256"] == PROMPTS.sha256
    assert kept["model"] == "small-1"
    assert [one["code"] for one in kept["rounds"]] == [source(7), source(5)]
    assert kept["rounds"][0]["score"]["confusion"]["true"] == {"true": 2, "false": 1}
    assert [one["step"] for one in kept["transcript"]] == [
        "collect",
        "collect",
        "make",
        "reflect",
        "repair",
    ]
    assert kept["transcript"][2]["messages"][0]["role"] == "system"
    assert kept["transcript"][3]["reply"] == "It is [secret]'s fault."
    assert [one["name"] for one in kept["gates"]] == ["policy", "budget", "heldout"]
    assert kept["traces"][0]["origin"] == "case-1"
    assert kept["ambiguities"][0]["subject"] == SECOND


async def test_the_document_for_people_has_no_bodies(tmp_path: Path) -> None:
    document = made_document(await made())
    text = orjson.dumps(document).decode()
    assert "transcript" not in document
    assert "LIMIT" not in text
    assert (document["passed"], document["version"], document["best"]) == (True, None, 1)
    assert document["exchanges"] == 5
    unseen = made_document((await made())._replace(gates=()))
    assert unseen["passed"] is False


# --- ambiguities --------------------------------------------------------------------------------


async def test_ambiguities_of_the_latest_making_are_read(tmp_path: Path) -> None:
    assert read_ambiguities(tmp_path) == []
    assert read_ambiguities(tmp_path / "nowhere") == []
    registrar(tmp_path).keep(await made("No."), AMBIGUOUS)
    assert read_ambiguities(tmp_path) == AMBIGUOUS
    # A version that came of it since has nothing against the text.
    registrar(tmp_path).register(await made(), [], at=AT)
    assert not (tmp_path / NODE / "made" / "last.json").exists()
    assert read_ambiguities(tmp_path) == []
    registrar(tmp_path).register(await made(), AMBIGUOUS, at=AT)
    assert read_ambiguities(tmp_path) == AMBIGUOUS


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"ambiguities": [1, {}, null]}', b"\xff"])
async def test_a_record_that_cannot_be_read_tells_nothing(tmp_path: Path, body: bytes) -> None:
    registrar(tmp_path).keep(await made("No."), AMBIGUOUS)
    (tmp_path / NODE / "made" / "last.json").write_bytes(body)
    assert read_ambiguities(tmp_path) == []


async def test_a_record_outside_the_library_is_not_read(tmp_path: Path) -> None:
    outside, library = tmp_path / "outside", tmp_path / "library"
    registrar(outside).keep(await made("No."), AMBIGUOUS)
    (library / NODE).mkdir(parents=True)
    (library / NODE / "made").symlink_to(outside / NODE / "made")
    assert read_ambiguities(library) == []
