/** One value with an element type: aclScalar. */

import { anyDType, type DType, type DTypeLike } from "./dtypes.js";
import { toBfloat16, toFloat16 } from "./half.js";
import { refuse, shown } from "./refusing.js";

/** A number, a truth value, or a complex number as its two parts. */
export type ScalarValue = number | bigint | boolean | readonly [real: number, imaginary: number];

/** One value with an element type. */
export class Scalar {
  /** Element type. */
  readonly dtype: DType;
  /** The value's bytes, little-endian, one element. */
  readonly bytes: Uint8Array;

  /**
   * Rounds a value to an element type.
   *
   * @param value a number; a complex one as `[real, imaginary]`.
   * @throws InvalidParameterError 161002: the value does not fit, or there are no scalars of the type.
   */
  constructor(
    readonly value: ScalarValue,
    type: DTypeLike,
  ) {
    this.dtype = anyDType(type);
    this.bytes = encoded(value, this.dtype);
  }

  /** The value and its type, for error texts. */
  toString(): string {
    return `Scalar(${shown(this.value)}, ${this.dtype.name})`;
  }
}

function encoded(value: ScalarValue, type: DType): Uint8Array {
  if (type.kind === "complex" && type.bits >= 64) {
    const [real, imaginary] = isComplex(value) ? value : [Number(value), 0];
    return floats([real, imaginary], type.bits / 2);
  }
  if (isComplex(value))
    refuse("value", `is [${value}], a complex number, which no ${type.name} is`);
  if (type.kind === "float" && type.bits >= 16) {
    const bits = type.name === "BF16" ? toBfloat16 : toFloat16;
    return type.bits === 16 ? bytesOf(bits([Number(value)])) : floats([Number(value)], type.bits);
  }
  if (type.kind === "bool") return Uint8Array.of(value ? 1 : 0);
  if ((type.kind === "signed" || type.kind === "unsigned") && type.bits >= 8)
    return whole(value, type);
  refuse("value", `cannot be of ${type.name}: there are no scalars of that type here`);
}

function isComplex(value: ScalarValue): value is readonly [number, number] {
  return typeof value === "object";
}

function floats(values: readonly number[], bits: number): Uint8Array {
  return bytesOf(bits === 64 ? Float64Array.from(values) : Float32Array.from(values));
}

function whole(value: number | bigint | boolean, type: DType): Uint8Array {
  const signed = type.kind === "signed";
  const low = signed ? -(2n ** BigInt(type.bits - 1)) : 0n;
  const high = 2n ** BigInt(signed ? type.bits - 1 : type.bits) - 1n;
  const number = typeof value === "number" && !Number.isInteger(value) ? null : BigInt(value);
  if (number === null || number < low || number > high) {
    refuse("value", `is ${shown(value)}; a ${type.name} is a whole number, ${low} to ${high}`);
  }
  return new Uint8Array(BigInt64Array.of(BigInt.asIntN(64, number)).buffer).slice(0, type.bits / 8);
}

function bytesOf(array: Float64Array | Float32Array | Uint16Array): Uint8Array {
  return new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
}
