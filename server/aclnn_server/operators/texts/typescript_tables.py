"""Text of the Node.js client's tables: error classes, return codes, element types, formats, promotion."""

from __future__ import annotations

import json
from collections.abc import Callable

from aclnn import codes, dtypes, errors, formats
from aclnn.dtypes import DType
from aclnn.promotion import promote, promote_scalar
from aclnn_server.operators.texts.typescript import NOTE


def error_classes() -> str:
    """The module ``errors.ts``: one class per reason."""
    rows = "\n".join(map(_error_class, errors.BY_REASON.values()))
    return f"""{NOTE}
import {{ AclnnError }} from "../error.js";

{rows}"""


def _error_class(cls: type[errors.AclnnError]) -> str:
    text = " ".join((cls.__doc__ or "").split())
    return f"""/** {text} */
export class {cls.__name__} extends AclnnError {{
  static override readonly reason: string = "{cls.reason}";
  static override readonly defaultCode: number = {cls.default_code};
  static override readonly status: number = {cls.status};
}}
"""


def tables() -> str:
    """The module ``tables.ts``: codes, element types, formats, and how types meet."""
    names = [f'  [{code}, "{codes.name_of(code)}"],\n' for code in sorted(_codes())]
    types = "".join(map(_dtype, dtypes.ALL))
    rows = "".join(f'  ["{row.name}", {row.number}, {row.acl}],\n' for row in formats.ALL)
    return f"""{NOTE}
/** The vendor's names of return codes. */
export const CODES: ReadonlyMap<number, string> = new Map([
{"".join(names)}]);

/** Element types by protocol number: ACL's name and number, bits of an element, kind, NumPy's name. */
export const DTYPES = [
{types}] as const;

/** Storage formats: ACL's name, number in the protocol, number in ACL. */
export const FORMATS: readonly (readonly [name: string, number: number, acl: number])[] = [
{rows}];

/** Number of the type in which two types meet, by their numbers less one; 0 where there is none. */
export const PROMOTED: readonly (readonly number[])[] = [
{_matrix(promote)}];

/** The same for a tensor (row) and an aclScalar (column). */
export const PROMOTED_WITH_SCALAR: readonly (readonly number[])[] = [
{_matrix(promote_scalar)}];
"""


def _codes() -> set[int]:
    return {value for name, value in vars(codes).items() if name.startswith("ACL")}


def _dtype(row: DType) -> str:
    numpy = json.dumps(row.numpy.name if row.numpy is not None else None)
    return (
        f'  {{ name: "{row.name}", number: {row.number}, acl: {row.acl}, bits: {row.bits}, '
        f'kind: "{row.kind}", numpy: {numpy} }},\n'
    )


def _matrix(meet: Callable[[DType, DType], DType | None]) -> str:
    def number(left: DType, right: DType) -> int:
        found = meet(left, right)
        return found.number if found is not None else 0

    return "".join(
        f"  [{', '.join(str(number(left, right)) for right in dtypes.ALL)}],\n"
        for left in dtypes.ALL
    )
