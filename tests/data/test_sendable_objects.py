"""Objects of the script in a job with data hosts are refused, with what to write instead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from launcher.data import DataLoader
from launcher.errors import DataError
from launcher.runtime import ENGINE_VARIABLE

PAGE = Path(__file__).parents[2] / "docs" / "data-loader.md"
FUNCTION = 'DataLoader("pipeline:train_set", ...)'


@pytest.mark.parametrize(
    ("dataset", "options", "said"),
    [
        pytest.param([1, 2], {}, ["the list given exists only", FUNCTION], id="dataset"),
        pytest.param(
            "digits:Digits",
            {"sampler": [1, 0]},
            ["the list given as sampler exists only", 'sampler="digits:order"'],
            id="sampler",
        ),
        pytest.param(
            [1, 2],
            {"batch_sampler": [[1], [0]]},
            ["the list given exists", FUNCTION, 'batch_sampler="pipeline:order"'],
            id="both",
        ),
    ],
)
def test_an_object_is_refused_with_what_to_write(
    monkeypatch: pytest.MonkeyPatch, dataset: Any, options: dict[str, Any], said: list[str]
) -> None:
    monkeypatch.setenv(ENGINE_VARIABLE, "service")
    with pytest.raises(DataError, match="data hosts prepare this job's data, and ") as refused:
        DataLoader(dataset, **options)
    assert [text for text in said if text not in str(refused.value)] == []
    page, _, heading = str(refused.value).rpartition("(")[2].removesuffix(")").partition(", ")
    assert page == f"docs/{PAGE.name}"
    assert f"\n### {heading}\n" in PAGE.read_text()


def test_without_data_hosts_an_object_is_read() -> None:
    loader = DataLoader([1, 2], sampler=[1, 0], tensors=False)
    assert [list(batch) for batch in loader] == [[2], [1]]
