"""Ascend products, and what each does not have: the rules that ``--soc`` selects.

Some operators also compute as a product's kernels do; see ``device_smooth_l1.py``.

Source: the product tables of the public operator documentation, and the lists of element types by
architecture in the operators' host code (hicann/ops-nn).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from aclnn import dtypes
from aclnn.dtypes import DType


@dataclass(frozen=True, slots=True)
class Product:
    """A generation of Ascend chips, or the reference that has everything."""

    name: str
    """Name that ``--soc`` selects it by."""
    title: str
    """The vendor's names of the products."""
    lacks: frozenset[DType] = frozenset()
    """Element types that no operator takes."""

    def allowed(self, types: Iterable[DType]) -> tuple[DType, ...]:
        """Those of `types` that this product has, in order."""
        return tuple(dtype for dtype in types if dtype not in self.lacks)


_NO_BF16 = frozenset((dtypes.BF16,))

REFERENCE = Product("reference", "Reference: the union of all products")
ASCEND950 = Product("ascend950", "Ascend 950PR/950DT")
ASCEND910_93 = Product("ascend910_93", "Atlas A3 training and inference")
ASCEND910B = Product("ascend910b", "Atlas A2 training and inference")
ASCEND910 = Product("ascend910", "Atlas training", _NO_BF16)
ASCEND310P = Product("ascend310p", "Atlas inference", _NO_BF16)
ASCEND310B = Product("ascend310b", "Atlas 200I/500 A2 inference", _NO_BF16)

PRODUCTS: Mapping[str, Product] = {
    row.name: row
    for row in (
        REFERENCE,
        ASCEND950,
        ASCEND910_93,
        ASCEND910B,
        ASCEND910,
        ASCEND310P,
        ASCEND310B,
    )
}
"""Every product, by name."""


def product(name: str) -> Product:
    """Finds a product by the name that ``--soc`` takes, upper or lower case.

    Raises:
        ValueError: there is no such product.
    """
    found = PRODUCTS.get(name.lower())
    if found is None:
        raise ValueError(f"{name!r} is no product; known are {', '.join(PRODUCTS)}")
    return found
