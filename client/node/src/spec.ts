/** How a tensor lies over its storage: aclCreateTensor's model. Strides and offsets count elements. */

import { type DType, isPacked, storageBytes } from "./dtypes.js";
import { ViewOutsideStorageError } from "./errors.js";
import { FORMATS } from "./generated/tables.js";
import { refuse } from "./refusing.js";

const MAX_DIMENSIONS = 64;

/** Number of a format in the protocol, by ACL's name. */
const FORMAT_NUMBERS = new Map<string, number>(FORMATS.map(([name, number]) => [name, number]));

/** How a tensor lies over its storage. */
export class TensorSpec {
  /** Elements of the view. */
  readonly elements: number;
  /** Elements of the storage. */
  readonly storageElements: number;
  /** First and one past the last element of the storage that are touched; equal when empty. */
  readonly reach: readonly [low: number, high: number];
  /** What two tensors have in common that are planned alike. */
  readonly key: string;

  constructor(
    readonly dtype: DType,
    readonly shape: readonly number[],
    readonly strides: readonly number[] = contiguousStrides(shape),
    readonly offset = 0,
    readonly storageShape: readonly number[] = shape,
    readonly format = "ND",
  ) {
    this.elements = product(shape);
    this.storageElements = product(storageShape);
    this.reach = this.findReach();
    this.key = [dtype.name, format, shape, strides, offset, storageShape].join(";");
  }

  /** Bytes of the storage. */
  get storageBytes(): number {
    return storageBytes(this.dtype, this.storageElements);
  }

  /** Number of the format in the protocol. */
  get formatNumber(): number {
    return FORMAT_NUMBERS.get(this.format) ?? 0;
  }

  /** Whether elements lie in C order of the storage's shape. */
  get isPlain(): boolean {
    return !this.format.includes("C0") && !this.format.includes("FRACTAL");
  }

  /** Whether the elements lie in C order without gaps; up to one element always does. */
  get isContiguous(): boolean {
    if (this.elements === 0) return true;
    let expected = 1;
    for (let axis = this.shape.length - 1; axis >= 0; axis--) {
      const size = this.shape[axis]!;
      if (size !== 1 && this.strides[axis] !== expected) return false;
      expected *= size;
    }
    return true;
  }

  /** Whether two indices may name the same element. */
  get overlapsItself(): boolean {
    const dims = this.shape
      .map((size, axis) => [Math.abs(this.strides[axis]!), size] as const)
      .filter(([, size]) => size > 1)
      .sort(([left], [right]) => left - right);
    let span = 0;
    for (const [stride, size] of dims) {
      if (stride <= span) return this.elements > 1;
      span += stride * (size - 1);
    }
    return false;
  }

  /** Whether writing the view leaves no element of its span untouched. */
  get fillsSpan(): boolean {
    const [low, high] = this.reach;
    if (isPacked(this.dtype)) {
      return this.isContiguous && low === 0 && high === this.storageElements;
    }
    return high - low === this.elements && !this.overlapsItself;
  }

  /** First and one past the last byte of the storage that hold what the view touches. */
  get byteSpan(): readonly [first: number, end: number] {
    // Packed elements do not begin at bytes, so their span begins with the storage.
    const low = isPacked(this.dtype) ? 0 : this.reach[0];
    return [storageBytes(this.dtype, low), storageBytes(this.dtype, this.reach[1])];
  }

  /**
   * Checks what must hold for any tensor before its sizes are used.
   *
   * @throws InvalidParameterError 161002: more than 64 dimensions, or more bytes than JavaScript counts exactly.
   */
  check(parameter: string): void {
    for (const [label, dims] of [
      ["shape", this.shape],
      ["storage shape", this.storageShape],
    ] as const) {
      if (dims.length > MAX_DIMENSIONS) {
        refuse(
          parameter,
          `has ${dims.length} dimensions in its ${label}; at most ${MAX_DIMENSIONS} can be`,
        );
      }
      // A zero must not hide an overflow of the other dimensions.
      const bytes = dims.reduce(
        (size, dim) => size * Math.max(dim, 1),
        Math.max(this.dtype.bits, 8) / 8,
      );
      if (bytes > Number.MAX_SAFE_INTEGER) {
        refuse(
          parameter,
          `has ${label} [${dims}] of ${this.dtype.name}, more than 2**53 - 1 bytes`,
        );
      }
    }
    if (!this.reach.every(Number.isSafeInteger)) {
      refuse(
        parameter,
        `has strides [${this.strides}], which reach further than 2**53 - 1 elements`,
      );
    }
  }

  /**
   * Checks that the view stays inside its storage.
   *
   * @throws ViewOutsideStorageError 561103: it does not.
   */
  checkReach(parameter: string): void {
    const [low, high] = this.reach;
    if (this.elements && (low < 0 || high > this.storageElements)) {
      throw new ViewOutsideStorageError(
        `${parameter} with shape [${this.shape}], strides [${this.strides}] and offset ${this.offset} ` +
          `reaches elements ${low} to ${Math.max(low, high - 1)} of a storage of ${this.storageElements} elements`,
        { parameter },
      );
    }
  }

  private findReach(): readonly [number, number] {
    if (this.elements === 0) return [this.offset, this.offset];
    let [low, high] = [this.offset, this.offset + 1];
    this.shape.forEach((size, axis) => {
      const step = (size - 1) * this.strides[axis]!;
      if (step < 0) low += step;
      else high += step;
    });
    return [low, high];
  }
}

/**
 * Finds a format by ACL's name.
 *
 * @throws InvalidParameterError 161002: the name is unknown.
 */
export function formatName(value: string): string {
  const name = String(value)
    .replace(/^ACL_/, "")
    .replace(/^FORMAT_/, "");
  if (!FORMAT_NUMBERS.has(name)) {
    refuse(
      "format",
      `is ${JSON.stringify(value)}, which is no format; known are ${[...FORMAT_NUMBERS.keys()].join(", ")}`,
    );
  }
  return name;
}

/** Strides, in elements, of a tensor in C order. */
export function contiguousStrides(shape: readonly number[]): number[] {
  const strides = new Array<number>(shape.length);
  let step = 1;
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    strides[axis] = step;
    step *= Math.max(shape[axis]!, 1);
  }
  return strides;
}

function product(dims: readonly number[]): number {
  return dims.reduce((size, dim) => size * dim, 1);
}
