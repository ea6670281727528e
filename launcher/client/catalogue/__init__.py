"""The instance types available to training jobs: size, accelerators and dated prices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from launcher.shared.doors import open_door

if TYPE_CHECKING:
    from launcher.client.catalogue.catalogue_entry import (
        CatalogueEntry,
        Figure,
        accelerator_kinds,
        count_figures,
        entries,
        entry,
        figure_source,
    )
    from launcher.client.catalogue.catalogue_files import updated_instances
    from launcher.client.catalogue.cost import (
        OLD_MARK,
        CostEstimate,
        GroupCost,
        dollars_text,
        estimate,
        price_sources,
        spot_saving,
        volume_gb,
    )
    from launcher.client.catalogue.instances import (
        InstanceType,
        cpu_speeds,
        find,
        instance_types,
        near,
        packaged_types,
        types_table,
    )
    from launcher.client.catalogue.price_download import (
        PRICE_LIST_URL,
        PRICE_LIST_VARIABLE,
        open_price_file,
    )
    from launcher.client.catalogue.price_update import PriceUpdate, update_prices
    from launcher.client.catalogue.prices import (
        STORAGE,
        Price,
        PriceList,
        aws_regions,
        check_regions,
        price_fix,
        price_list,
        today,
        update_fix,
    )

__getattr__ = open_door(__name__)
