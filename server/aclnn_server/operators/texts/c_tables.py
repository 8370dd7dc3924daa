"""Text of what the C library takes from the tables of ``aclnn``: return codes, element types, formats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aclnn import codes, dtypes, formats

_CODES = """/* Return codes of ACL and of its runtime, by the vendor's names and numbers.
 * {origin}
 *
 * The first digit tells the kind: 1 the caller's mistake, 2 a missing resource, 3 a limit, 5 an
 * internal failure. The set is open: treat a code as an int.
 */
#ifndef ACLNN_SERVE_ACL_ERROR_CODES_H
#define ACLNN_SERVE_ACL_ERROR_CODES_H

static const int ACL_SUCCESS = 0;
static const int ACL_ERROR_NONE = 0;
static const int ACL_RT_SUCCESS = 0;

{rows}
#endif
"""

_TYPES = """// ACL's element types and formats, by ACL's numbers; a row without a name is no type.
// {origin}

constexpr ElementType kElementTypes[] = {{
{types}}};

constexpr StorageFormat kFormats[] = {{
{formats}}};
"""


def error_codes(origin: str) -> str:
    """The header ``acl/error_codes.h``."""
    numbers = {name: code for name, code in vars(codes).items() if name.startswith("ACL_ERROR_")}
    rows = "".join(f"static const int {name} = {code};\n" for name, code in numbers.items())
    return _CODES.format(origin=origin, rows=rows)


def element_types(origin: str) -> str:
    """The tables that ``src/meta/types.h`` includes."""
    types = {row.acl: f'{{"{row.name}", {row.number}, {row.bits}}}' for row in dtypes.ALL}
    names = {row.acl: f'{{"{row.name}", {row.number}}}' for row in formats.ALL}
    return _TYPES.format(
        origin=origin,
        types=_indexed(types, "{nullptr, 0, 0}"),
        formats=_indexed(names, "{nullptr, 0}"),
    )


def _indexed(rows: Mapping[int, str], missing: str) -> str:
    filled: Sequence[str] = [rows.get(number, missing) for number in range(max(rows) + 1)]
    return "".join(f"    {row},  // {number}\n" for number, row in enumerate(filled))
