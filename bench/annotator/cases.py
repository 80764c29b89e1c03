"""Labelled cases for every node: where its tool is asked, and what it must answer.

Per node and part (train, held-out) about 180 cases, as many true as false as no_data where the
world has them, from at least 20 episodes where it has so many. Half of a verdict's cases are those
closest to the rule's threshold, and some come in pairs, one second apart, with the verdict turning
between them. The same world and seed give the same cases.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from random import Random
from typing import NamedTuple

from bench.annotator.candidates import (
    ALARM_ENTITIES,
    AROUND_S,
    SPECIAL_TIMES,
    SPLITS,
    Place,
    Places,
    Split,
    World,
    entities,
    instants,
)
from bench.annotator.judge import RULES, Judge
from bench.annotator.judged import VALUES, Judged, Value
from bench.annotator.settings import Settings
from bench.world.layout import SITES, spell

PER_VERDICT = 60
PAIRS = 12
FEWEST, MOST = 100, 200  # cases of a node and part
PER_EPISODE = 3  # cases of one verdict
EXPLORED = 0.2  # share of tries anywhere, whatever was found so far
AT_SPECIAL = 0.08  # share of tries at times that are hard to get right
RELATED = 0.75  # share of tries at an asset that the fault shows at
SPELLED = 0.4  # share of entities as the site spells them
POOL = 2  # a verdict has enough when there are so many times as many as are kept

TRIES = 1800
CHEAP_TRIES = 4800
CHEAP = frozenset(
    {
        "con_cpt_slack",
        "con_labor_movable",
        "con_reset_allowed",
        "con_spare_on_hand",
        "con_tech_free",
        "con_ticket_open",
        "con_yard_trailer",
        "obs_sorter_slow",
        "obs_staging_crowded",
        "obs_departure_short",
        "rc_air_pressure_low",
        "rc_carriers_out",
        "rc_container_short",
        "rc_door_fault",
        "rc_drive_fault",
        "rc_drive_overload",
        "rc_label_print_poor",
        "rc_labor_short",
        "rc_no_destination",
        "rc_safety_stop",
        "rc_upstream_stop",
        "rc_volume_over_plan",
    }
)
"""Nodes whose figures cost well below a millisecond: the rare verdicts are sought for longer."""

CANNOT: Mapping[tuple[str, Value], str] = {
    (node, "no_data"): "a chute's last change speaks for a day, and no silence is as long"
    for node in ("obs_chutes_full", "obs_chutes_clustered")
}
"""Verdicts that a node does not come to in this world, and why: they are not sought."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """`site` is an index into the world's sites; `t` seconds since the epoch, UTC; `entity` as an
    alert would spell it; `subject` a normalised id. `episode` is one of the world's, or, where
    none was on, a negative number of the site and day. `margin` as in Judged. `near` names what
    the instant was found by: a fault, a silence, a special time, `any time`, or `turn`."""

    node: str
    site: int
    t: int
    entity: str
    expected: Value
    subject: str
    split: Split
    episode: int
    margin: float | None
    near: str


class Shortfall(NamedTuple):
    """A verdict that a part of a node's cases has too few of, and among how many tries."""

    node: str
    split: Split
    verdict: Value
    found: int
    tries: int


class _Found(NamedTuple):
    place: Place
    t: int
    entity: str
    judged: Judged
    episode: int
    near: str


class _Tally:
    """Which verdicts the kinds of places have given so far."""

    def __init__(self, kinds: Sequence[str]) -> None:
        self._kinds = kinds
        self._tries: Counter[str] = Counter()
        self._gave: Counter[tuple[str, Value]] = Counter()

    def add(self, kind: str, value: Value) -> None:
        self._tries[kind] += 1
        self._gave[kind, value] += 1

    def best(self, wanted: Value) -> str:
        """The kind most likely to give a verdict; what was not tried yet comes first."""
        return max(
            self._kinds,
            key=lambda kind: (self._gave[kind, wanted] + 0.5) / (self._tries[kind] + 1),
        )


class CaseMaker:
    """`effort` scales how long the rare verdicts are sought; tests make do with less."""

    def __init__(self, world: World, settings: Settings, seed: int, *, effort: float = 1.0) -> None:
        self._effort = effort
        self.judge = Judge(world, settings)
        self.tries: Counter[tuple[str, Split]] = Counter()
        self._settings = settings
        self._seed = seed
        self._places = {split: Places(world, split) for split in SPLITS}
        self._spelling = [
            next((one.spelling for one in SITES if one.facts.name == facts.name), "plain")
            for facts in world.sites
        ]
        self._layouts = [settings.site(facts).layout for facts in world.sites]

    def of(self, node: str) -> list[Case]:
        """Train cases, then held-out ones, in order of time."""
        return [case for split in SPLITS for case in self._of_split(node, split)]

    def _of_split(self, node: str, split: Split) -> list[Case]:
        rng = _rng(self._seed, node, split)
        found = self._gather(node, split, rng)
        turns = self._turns(node, split, found, rng)
        chosen = turns + _choose(found, turns, rng)
        cases = {
            (one.place.site, one.t, self._layouts[one.place.site].normalise(one.entity)): Case(
                node=node,
                site=one.place.site,
                t=one.t,
                entity=one.entity,
                expected=one.judged.value,
                subject=one.judged.subject,
                split=split,
                episode=one.episode,
                margin=None if one.judged.margin is None else round(one.judged.margin, 9),
                near=one.near,
            )
            for one in chosen
        }
        return sorted(cases.values(), key=lambda case: (case.t, case.site, case.entity))

    def _gather(self, node: str, split: Split, rng: Random) -> list[_Found]:
        places = self._places[split]
        kinds = sorted(places.by_kind)
        special = [kind for kind in SPECIAL_TIMES if kind in places.by_kind]
        prefixes = self._prefixes(node)
        own = node.removeprefix("rc_")
        tally = _Tally([own, *kinds] if own in kinds else kinds)
        found: list[_Found] = []
        have: Counter[Value] = Counter()
        possible = [value for value in VALUES if (node, value) not in CANNOT]
        for _ in range(round(self._effort * (CHEAP_TRIES if node in CHEAP else TRIES))):
            wanted = min(possible, key=lambda value: have[value])
            if have[wanted] >= POOL * PER_VERDICT:
                break
            where = rng.random()
            if where < EXPLORED:
                kind = rng.choice(kinds)
            elif where < EXPLORED + AT_SPECIAL and special:
                kind = rng.choice(special)
            else:
                kind = tally.best(wanted)
            place = rng.choice(places.by_kind[kind])
            one = self._try(node, split, place, instants(place, rng), prefixes, rng)
            if one is None:
                continue
            tally.add(kind, one.judged.value)
            have[one.judged.value] += 1
            found.append(one)
        return found

    def _prefixes(self, node: str) -> list[str]:
        """Kinds of assets of the alarms that lead to a node."""
        return sorted(
            {
                prefix
                for alarm, prefixes in ALARM_ENTITIES.items()
                if node in self._settings.reached_from(alarm)
                for prefix in prefixes
            }
        )

    def _try(
        self,
        node: str,
        split: Split,
        place: Place,
        t: int,
        prefixes: Sequence[str],
        rng: Random,
    ) -> _Found | None:
        layout = self._layouts[place.site]
        asset = place.asset if rng.random() < RELATED else ""
        entity = rng.choice(rng.choice(entities(layout, asset, prefixes)))
        spelled = rng.random() < SPELLED
        return self._judged(
            node,
            split,
            place,
            t,
            spell(entity, self._spelling[place.site]) if spelled else entity,
            place.kind,
        )

    def _judged(
        self, node: str, split: Split, place: Place, t: int, entity: str, near: str
    ) -> _Found | None:
        episode = self._places[split].episode_at(place, t)
        if episode is None:
            return None
        self.tries[node, split] += 1
        judged = self.judge.judge(place.site, t, entity, node)
        return _Found(place, t, entity, judged, episode, near)

    # --- where the verdict turns --------------------------------------------------------------

    def _turns(self, node: str, split: Split, found: Sequence[_Found], rng: Random) -> list[_Found]:
        """Pairs one second apart with different verdicts, found between what was tried already
        and the edges of its place."""
        pairs: list[_Found] = []
        tried = sorted(found, key=lambda one: (one.judged.value == "false", rng.random()))
        used: Counter[int] = Counter()
        turned: Counter[frozenset[Value]] = Counter()
        for one in tried[: 4 * PAIRS]:
            if len(pairs) >= 2 * PAIRS:
                break
            if used[one.episode]:
                continue
            for t in (one.place.start - AROUND_S // 2, one.place.end + AROUND_S // 2):
                other = self._judged(node, split, one.place, t, one.entity, "turn")
                if other is None or other.judged.value == one.judged.value:
                    continue
                sides = frozenset((other.judged.value, one.judged.value))
                if turned[sides] > PAIRS // 2:
                    continue
                turn = self._bisected(node, split, one, other)
                if turn is not None:
                    used[one.episode] += 1
                    turned[sides] += 1
                    pairs += turn
                break
        return pairs

    def _bisected(self, node: str, split: Split, one: _Found, other: _Found) -> list[_Found] | None:
        before, behind = sorted((one, other), key=lambda found: found.t)
        while behind.t - before.t > 1:
            t = (before.t + behind.t) // 2
            middle = self._judged(node, split, one.place, t, one.entity, "turn")
            if middle is None:
                return None
            if middle.judged.value == before.judged.value:
                before = middle
            else:
                behind = middle
        return [before._replace(near="turn"), behind._replace(near="turn")]


def _choose(found: Sequence[_Found], turns: Sequence[_Found], rng: Random) -> list[_Found]:
    """Of each verdict its share, half of them by their margin and half by chance, from as many
    episodes as there are; the plentiful verdicts fill up for the scarce ones."""
    chosen: list[_Found] = []
    left: list[_Found] = []
    have = Counter(one.judged.value for one in turns)
    episodes = Counter((one.judged.value, one.episode) for one in turns)
    for value in VALUES:
        pool = [one for one in found if one.judged.value == value]
        rng.shuffle(pool)
        closest = sorted(pool, key=lambda one: _margin(one.judged))
        order = [one for pair in zip(closest, pool, strict=True) for one in pair]
        for one in dict.fromkeys(order):
            if have[value] < PER_VERDICT and episodes[value, one.episode] < PER_EPISODE:
                have[value] += 1
                episodes[value, one.episode] += 1
                chosen.append(one)
            else:
                left.append(one)
    by_episode = Counter(one.episode for one in (*turns, *chosen))
    # A second and third look at the rest, scarce verdicts before plentiful ones, and no episode
    # more often than it must be.
    looks = [
        (share, most)
        for share in (PER_VERDICT, MOST)
        for most in (PER_EPISODE, 2 * PER_EPISODE, MOST)
    ]
    taken = set(chosen)
    for share, most in looks:
        for one in left:
            value = one.judged.value
            if len(chosen) + len(turns) >= PER_VERDICT * len(VALUES):
                return chosen
            if one not in taken and have[value] < share and by_episode[one.episode] < most:
                have[value] += 1
                by_episode[one.episode] += 1
                taken.add(one)
                chosen.append(one)
    return chosen


def _margin(judged: Judged) -> float:
    return float("inf") if judged.margin is None else judged.margin


def _rng(seed: int, *parts: str) -> Random:
    """Of its own for each node and part: a node's cases do not depend on the others'."""
    digest = sha256("/".join((str(seed), *parts)).encode()).digest()
    return Random(int.from_bytes(digest[:8], "big"))


def make_cases(world: World, settings: Settings, seed: int) -> list[Case]:
    """Every node's cases, in the order of RULES."""
    maker = CaseMaker(world, settings, seed)
    return [case for node in RULES for case in maker.of(node)]


def shortfalls(cases: Sequence[Case], tries: Mapping[tuple[str, Split], int]) -> list[Shortfall]:
    """The verdicts that make up less than a fifth of the fewest cases a node should have."""
    have = Counter((case.node, case.split, case.expected) for case in cases)
    return [
        Shortfall(node, split, value, have[node, split, value], tries.get((node, split), 0))
        for node in RULES
        for split in SPLITS
        for value in VALUES
        if have[node, split, value] < FEWEST // 5
    ]


def mix(cases: Sequence[Case]) -> Iterator[tuple[str, Split, dict[Value, int], int]]:
    """Node, part, cases of each verdict, and episodes."""
    for node in RULES:
        for split in SPLITS:
            own = [case for case in cases if (case.node, case.split) == (node, split)]
            counts = Counter(case.expected for case in own)
            yield (
                node,
                split,
                {value: counts[value] for value in VALUES},
                len({case.episode for case in own}),
            )
