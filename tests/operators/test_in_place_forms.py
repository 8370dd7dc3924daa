"""In-place forms compute what the operators do that they are named after."""

from __future__ import annotations

import numpy as np
import pytest

from aclnn import dtypes
from aclnn.dtypes import DType
from aclnn_server.operators.catalogue import built_in
from aclnn_server.operators.definition import Operator
from tests.operators.samples import Sample, sample
from tests.operators.test_every_operator import NOT_FOR

IN_PLACE = [
    row
    for name, row in built_in().items()
    if name.replace("Inplace", "") in built_in() and "Inplace" in name
]

FLOATING = {name for name, types in NOT_FOR.items() if "INT64" in types}


@pytest.mark.parametrize("operator", IN_PLACE, ids=lambda row: row.name)
@pytest.mark.parametrize("dtype", [dtypes.FLOAT, dtypes.BF16, dtypes.INT64])
def test_in_place_forms_are_the_others(operator: Operator, dtype: DType) -> None:
    if operator.name in FLOATING and dtype is dtypes.INT64:
        pytest.skip("selfRef cannot hold the result")
    twin = built_in()[operator.name.replace("Inplace", "")]
    other = sample(twin, (4, 6), dtype)
    made = sample(operator, (4, 6), dtype)
    (out,) = (row.name for row in operator.signature.outputs)
    first = twin.signature.parameters[0].name
    values = {out if name == first else name: value for name, value in other.values.items()}
    written = {out: other.values[first].copy()}
    made = Sample(operator, {name: (values | written)[name] for name in made.values})
    made.run()
    other.run()
    np.testing.assert_array_equal(made.values[out], other.values["out"])
