"""Which machine, drive, doors and eyes an asset stands for. All raise UnknownAsset."""

from __future__ import annotations

from bench.world.layout import ASSETS, LAYOUT, name


class UnknownAsset(LookupError):
    """The call knows no such asset; `str()` says what it takes."""


def known(asset: str) -> str:
    """`asset` itself, when there is such a one."""
    prefix = asset.partition("-")[0]
    if asset not in ASSETS.get(prefix, ()):
        raise UnknownAsset(f"there is no {asset!r} here: give a normalised id, such as CH-007")
    return asset


def _parts(asset: str) -> tuple[str, int]:
    prefix, _, digits = known(asset).partition("-")
    return prefix, int(digits)


def machine_of(asset: str) -> str:
    """What is stopped when an asset's own inputs open: a drive's or an eye's is its conveyor."""
    match _parts(asset):
        case "PE", number:
            return name("INF", number // 10)
        case "DRV", 0:
            return "LS-1"
        case "DRV", number if number >= 10:
            return name("RC", number - 10)
        case "DRV", number:
            return name("INF", number)
    return asset


def zone_of(machine: str) -> str:
    """The machine whose inputs stop the whole zone."""
    match _parts(machine):
        case (("CH" | "ST" | "AIR"), _):
            return "LS-1"
        case (("RC" | "MS"), _):
            return "SG-1"
        case "STG", number:
            return name("ZN", 1 + (number - 1) // LAYOUT["lanes_per_zone"])
        case "DD", number:
            lane = (number - 1) // LAYOUT["doors_per_lane"]
            return name("ZN", 1 + lane // LAYOUT["lanes_per_zone"])
    return machine


def drive_of(asset: str) -> str:
    """The drive that moves an asset; itself for what has a controller of its own."""
    match _parts(asset):
        case "LS", _:
            return "DRV-0"
        case "INF", number:
            return name("DRV", number)
        case "PE", number:
            return name("DRV", number // 10)
        case "RC", number:
            return name("DRV", 10 + number)
    return asset


def doors_of(asset: str) -> range | tuple[int, ...]:
    per_lane = LAYOUT["doors_per_lane"]
    match _parts(asset):
        case "DD", number:
            return (number,)
        case "STG", lane:
            return range(per_lane * (lane - 1) + 1, per_lane * lane + 1)
        case "LS", _:
            return range(1, LAYOUT["doors"] + 1)
    raise UnknownAsset(f"doors are of a door, a lane or LS-1: {asset!r} is none of these")


def eyes_of(asset: str) -> tuple[str, ...]:
    match _parts(asset):
        case (("PE" | "CH"), _):
            return (asset,)
        case "INF", number:
            return tuple(eye for eye in ASSETS["PE"] if int(eye[3:]) // 10 == number)
        case "LS", _:
            return ASSETS["CH"]
    raise UnknownAsset(
        f"eyes are of an eye, an infeed, a chute or LS-1: {asset!r} is none of these"
    )


def rack_of(asset: str) -> str:
    """The amplifier rack that answers for an asset's eyes."""
    return machine_of(asset) if asset.startswith("PE-") else asset
