/** Element types: protocol number, ACL's number and names, size, and the typed array that holds them. */

import { DTYPES } from "./generated/tables.js";
import { refuse, shown } from "./refusing.js";

type Row = (typeof DTYPES)[number];

/** ACL's names of element types, without the prefix `ACL_`. */
export type DTypeName = Row["name"];
/** NumPy's names of element types. */
export type NumpyName = NonNullable<Row["numpy"]>;

/** One element type; there is one object of each. */
export interface DType {
  /** ACL's name without the prefix `ACL_`, for example `"FLOAT"` or `"BF16"`. */
  readonly name: DTypeName;
  /** Number in the protocol's DataType. */
  readonly number: number;
  /** Number in ACL's aclDataType. */
  readonly acl: number;
  /** Bits of an element in a storage; below 8 elements are packed, first in the lowest bits. */
  readonly bits: number;
  /** What arithmetic it takes part in. */
  readonly kind: "float" | "signed" | "unsigned" | "bool" | "complex" | "other";
  /** NumPy's name; null where NumPy has none. */
  readonly numpy: NumpyName | null;
}

/**
 * An element type, by ACL's name (`"FLOAT"`, `"ACL_BF16"`), NumPy's (`"float32"`, `"bfloat16"`), or ACL's
 * number (0 for FLOAT).
 */
export type DTypeLike = DType | DTypeName | `ACL_${DTypeName}` | NumpyName | number;

const BY_NAME = new Map<string, DType>();
for (const row of DTYPES) {
  BY_NAME.set(row.name, row).set(`ACL_${row.name}`, row);
  if (row.numpy !== null) BY_NAME.set(row.numpy, row);
}
const BY_ACL = new Map<number, DType>(DTYPES.map((row) => [row.acl, row]));
const BY_NUMBER = new Map<number, DType>(DTYPES.map((row) => [row.number, row]));

/**
 * Finds an element type that a tensor can have.
 *
 * @throws InvalidParameterError 161002: there is none of that name, or no tensor can have it.
 */
export function dtype(value: DTypeLike, parameter = "dtype"): DType {
  const found = anyDType(value, parameter);
  if (!found.bits) refuse(parameter, `is ${found.name}, of which no tensor can be made`);
  return found;
}

/** Finds an element type; errors as {@link dtype}. */
export function anyDType(value: DTypeLike, parameter = "dtype", operator = ""): DType {
  const found = lookedUp(value);
  if (found !== undefined) return found;
  const names = DTYPES.map((row) => row.name).join(", ");
  refuse(parameter, `is ${shown(value)}, which is no element type; known are ${names}`, operator);
}

function lookedUp(value: DTypeLike): DType | undefined {
  if (typeof value === "string") return BY_NAME.get(value);
  if (typeof value === "number") return BY_ACL.get(value);
  return value !== null && BY_NAME.get(value.name) === value ? value : undefined;
}

/** Finds an element type by its number in the protocol. */
export function dtypeOf(number: number): DType | undefined {
  return BY_NUMBER.get(number);
}

/** An element type by its name, which is known to be right. */
export function named(name: DTypeName): DType {
  return BY_NAME.get(name) as DType;
}

/** Whether several elements share a byte of the storage. */
export function isPacked(type: DType): boolean {
  return type.bits > 0 && type.bits < 8;
}

/** Bytes that elements take in a storage. */
export function storageBytes(type: DType, elements: number): number {
  return isPacked(type) ? Math.ceil((elements * type.bits) / 8) : elements * (type.bits / 8);
}
