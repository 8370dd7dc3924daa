/** Arguments of phase one as they travel, by kind of C parameter. */

import { anyDType, type DTypeLike } from "./dtypes.js";
import { Argument, Tensor } from "./generated/messages/aclnn/v1/tensor.js";
import type { Kind } from "./kinds.js";
import { isIterable } from "./numbers.js";
import { refuse, shown } from "./refusing.js";
import { Scalar } from "./scalar.js";
import type { Parameter } from "./signatures.js";
import { contiguousStrides, type TensorSpec } from "./spec.js";

type Value = NonNullable<Argument["value"]>;
type Storage = NonNullable<Tensor["storage"]>;

/** Encodes a tensor; strides and storage shape are left out where they are the default. */
export function encodeTensor(spec: TensorSpec, storage?: Storage): Tensor {
  const isDefault = String(spec.strides) === String(contiguousStrides(spec.shape));
  const isWhole = String(spec.storageShape) === String(spec.shape);
  const wide = (values: readonly number[]): bigint[] => values.map(BigInt);
  return Tensor.create({
    dataType: spec.dtype.number,
    format: spec.formatNumber,
    shape: wide(spec.shape),
    strides: isDefault ? [] : wide(spec.strides),
    offset: BigInt(spec.offset),
    // Empty would mean the shape.
    storageShape: isWhole ? [] : wide(spec.storageShape.length > 0 ? spec.storageShape : [1]),
    ...(storage && { storage }),
  });
}

/** A scalar as it travels. */
function encodeScalar(scalar: Scalar): { dataType: number; value: Uint8Array } {
  return { dataType: scalar.dtype.number, value: scalar.bytes };
}

/** The bytes of an argument. */
export function encoded(value: Value): Uint8Array {
  return Argument.encode({ value }).finish();
}

/**
 * An argument that is no tensor, as it travels.
 *
 * @param parameter that it is for.
 * @param given number, text, scalar, or sequence of them; null is a null pointer.
 * @throws InvalidParameterError 161002: it does not fit the parameter's C type.
 */
export function plainArgument(parameter: Parameter, given: unknown, operator: string): Value {
  const found = encodePlain(parameter.kind, given);
  if (found === undefined) {
    refuse(parameter.name, `is ${shown(given)}, which is no ${parameter.cType}`, operator);
  }
  return found;
}

function encodePlain(kind: Kind, given: unknown): Value | undefined {
  switch (kind) {
    case "scalar": {
      const scalar = asScalar(given);
      return scalar && { $case: kind, value: encodeScalar(scalar) };
    }
    case "scalarList": {
      const scalars = each(given, asScalar);
      return scalars && { $case: kind, value: { scalars: scalars.map(encodeScalar) } };
    }
    case "intArray":
      return listed(
        kind,
        each(given, (item) => whole(item, -(2n ** 63n), 2n ** 63n - 1n)),
      );
    case "floatArray":
      return listed(kind, each(given, real));
    case "boolArray":
      return listed(kind, each(given, truth));
    default:
      return encodeNumber(kind, given);
  }
}

function encodeNumber(kind: Kind, given: unknown): Value | undefined {
  switch (kind) {
    case "text":
      return typeof given === "string" ? { $case: kind, value: given } : undefined;
    case "int64Value":
      return one(kind, whole(given, -(2n ** 63n), 2n ** 63n - 1n));
    case "uint64Value":
      return one(kind, whole(given, 0n, 2n ** 64n - 1n));
    case "int32Value":
      return one(kind, number(whole(given, -(2n ** 31n), 2n ** 31n - 1n)));
    case "int8Value":
      return one(kind, number(whole(given, -128n, 127n)));
    case "boolValue":
      return one(kind, truth(given));
    case "doubleValue":
    case "floatValue":
      return one(kind, real(given));
    case "dataType":
      return typeof given === "string" || typeof given === "number" || isDType(given)
        ? { $case: kind, value: anyDType(given as DTypeLike).number }
        : undefined;
    default:
      return undefined;
  }
}

function isDType(given: unknown): boolean {
  return typeof given === "object" && given !== null && "acl" in given;
}

function one<K extends Value["$case"], V>(kind: K, value: V | undefined): Value | undefined {
  return value === undefined ? undefined : ({ $case: kind, value } as unknown as Value);
}

function listed<K extends Value["$case"], V>(kind: K, values: V[] | undefined): Value | undefined {
  return values === undefined
    ? undefined
    : ({ $case: kind, value: { values } } as unknown as Value);
}

/** Every item of a sequence; undefined where it is none, or an item is not what it should be. */
function each<V>(given: unknown, read: (item: unknown) => V | undefined): V[] | undefined {
  if (!isIterable(given)) return undefined;
  const values = Array.from(given, read);
  return values.includes(undefined) ? undefined : (values as V[]);
}

function whole(given: unknown, low: bigint, high: bigint): bigint | undefined {
  if (typeof given === "number" && !Number.isSafeInteger(given)) return undefined;
  if (typeof given !== "number" && typeof given !== "bigint") return undefined;
  const value = BigInt(given);
  return low <= value && value <= high ? value : undefined;
}

function number(value: bigint | undefined): number | undefined {
  return value === undefined ? undefined : Number(value);
}

function real(given: unknown): number | undefined {
  if (typeof given === "number") return given;
  return typeof given === "bigint" && BigInt(Number(given)) === given ? Number(given) : undefined;
}

function truth(given: unknown): boolean | undefined {
  if (typeof given === "boolean") return given;
  return given === 0 || given === 1 ? given === 1 : undefined;
}

/**
 * The scalar that a value stands for: INT64 for a bigint and a whole number, FLOAT for any other number, BOOL
 * for a truth value.
 */
export function asScalar(given: unknown): Scalar | undefined {
  if (given instanceof Scalar) return given;
  if (typeof given === "boolean") return new Scalar(given, "BOOL");
  if (typeof given === "bigint") return new Scalar(given, "INT64");
  if (typeof given !== "number") return undefined;
  return new Scalar(
    given,
    Number.isSafeInteger(given) && !Object.is(given, -0) ? "INT64" : "FLOAT",
  );
}
