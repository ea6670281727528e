"""Replace the catalogue's instance types by what EC2 describes, in the user's Launcher home."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from launcher.client import catalogue
from launcher.client.catalogue import described_type, packaged_types, types_table, updated_instances
from launcher.client.home import writing
from launcher.client.sessions import describe_instance_types
from launcher.errors import Refused
from launcher.shared import write_complete


@dataclass(frozen=True, kw_only=True)
class CatalogueTypeUpdate:
    """The instance types that EC2 described in a region; new: those that Launcher did not have."""

    region: str
    count: int
    new: tuple[str, ...]
    file: Path


def update_catalogue_types(region: str | None, today: date) -> CatalogueTypeUpdate:
    """Ask EC2 for its instance types, and store those of SageMaker.

    A type is SageMaker's if it is in Launcher's table or has a price for training. The old types
    stay if this raises: CloudError for EC2, PlatformError for a file that cannot be written.
    """
    asked, described = describe_instance_types(region)
    prices = catalogue.price_list()
    own = packaged_types()
    types = _by_name(_type(each, today) for each in described)
    kept = [each for each in types if each.name in own or prices.find(each.name, asked)]
    if not kept:
        raise Refused(f"EC2 describes no instance type of SageMaker in {asked}")
    file = updated_instances()
    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_complete(file, types_table(kept))
    new = tuple(each.name for each in kept if each.name not in own)
    return CatalogueTypeUpdate(region=asked, count=len(kept), new=new, file=file)


def _by_name(types: Iterable[catalogue.InstanceType]) -> Iterable[catalogue.InstanceType]:
    """Return each type once; a page may repeat one of the page before."""
    found: dict[str, catalogue.InstanceType] = {}
    for each in types:
        if found.setdefault(each.name, each) != each:
            raise Refused(f"EC2 describes {each.name} twice, with different figures")
        known = packaged_types().get(each.name)
        if known and known.accelerators and not each.accelerators:
            raise Refused(
                f"EC2's description of {each.name} lacks its {known.accelerators} x "
                f"{known.accelerator_name}"
            )
    return found.values()


def _type(described: Mapping[str, Any], today: date) -> catalogue.InstanceType:
    try:
        return described_type(described, f"ec2-api@{today.isoformat()}")
    except KeyError as error:
        name = f"ml.{described['InstanceType']}" if "InstanceType" in described else "a type"
        raise Refused(f"EC2's description of {name} lacks {error}") from error
