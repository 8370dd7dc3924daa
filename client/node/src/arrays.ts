/** Arrays of the caller: a typed array, its shape, and the element type that its items are. */

import { type InspectOptions, inspect } from "node:util";
import { type DType, type DTypeLike, dtype, isPacked, named, storageBytes } from "./dtypes.js";
import { sizes } from "./numbers.js";
import { refuse, shown } from "./refusing.js";

/** The memory of an array. */
export type TypedArray =
  | Int8Array
  | Uint8Array
  | Uint8ClampedArray
  | Int16Array
  | Uint16Array
  | Int32Array
  | Uint32Array
  | Float32Array
  | Float64Array
  | BigInt64Array
  | BigUint64Array;

type Constructor = { new (buffer: ArrayBufferLike, offset?: number, length?: number): TypedArray };

const DTYPE_OF = new Map<string, DType>([
  ["Int8Array", named("INT8")],
  ["Uint8Array", named("UINT8")],
  ["Buffer", named("UINT8")],
  ["Uint8ClampedArray", named("UINT8")],
  ["Int16Array", named("INT16")],
  ["Uint16Array", named("UINT16")],
  ["Int32Array", named("INT32")],
  ["Uint32Array", named("UINT32")],
  ["Float16Array", named("FLOAT16")],
  ["Float32Array", named("FLOAT")],
  ["Float64Array", named("DOUBLE")],
  ["BigInt64Array", named("INT64")],
  ["BigUint64Array", named("UINT64")],
]);

/** The typed array that elements are read into. */
function constructorOf(type: DType): Constructor {
  if (type.kind === "float" || type.kind === "complex") {
    const part = type.kind === "complex" ? type.bits / 2 : type.bits;
    return part === 64
      ? Float64Array
      : part === 32
        ? Float32Array
        : part === 16
          ? Uint16Array
          : Uint8Array;
  }
  const signed = type.kind === "signed";
  switch (type.bits) {
    case 64:
      return signed ? BigInt64Array : BigUint64Array;
    case 32:
      return signed ? Int32Array : Uint32Array;
    case 16:
      return signed ? Int16Array : Uint16Array;
    default:
      return signed ? Int8Array : Uint8Array;
  }
}

/** Items of a typed array that make up one element: two for a complex number. */
function itemsOf(type: DType): number {
  return type.kind === "complex" ? 2 : 1;
}

function elementsOf(shape: readonly number[]): number {
  return shape.reduce((product, size) => product * size, 1);
}

/** An array: elements in C order, their shape, and their type. */
export class NdArray<T extends TypedArray = TypedArray> {
  /**
   * The elements in C order. FLOAT16 and BF16 are their bits, BOOL is 0 and 1, a complex number is two
   * items (real, imaginary), and an element of a type of fewer than 8 bits is an item of its own.
   */
  readonly data: T;
  /** Dimensions. */
  readonly shape: readonly number[];
  /** Element type. */
  readonly dtype: DType;

  /**
   * Gives a typed array a shape, without a copy.
   *
   * @param data the elements in C order.
   * @param shape dimensions; without, one dimension.
   * @param type element type; without, that of the typed array: FLOAT for a Float32Array, and so on.
   * @throws InvalidParameterError 161002: it is no typed array, or has more or fewer items than it needs.
   */
  constructor(data: T, shape?: Iterable<number | bigint> | null, type?: DTypeLike | null) {
    const natural = typed(data);
    if (natural === undefined) refuse("data", `is ${shown(data)}, which is no typed array`);
    this.data = data;
    this.dtype = type === undefined || type === null ? natural : dtype(type);
    const wanted = constructorOf(this.dtype);
    if (wanted.name !== data.constructor.name && constructorOf(natural) !== wanted) {
      refuse(
        "data",
        `is a ${data.constructor.name}; elements of ${this.dtype.name} are a ${wanted.name}`,
      );
    }
    const items = itemsOf(this.dtype);
    this.shape =
      shape === undefined || shape === null ? [data.length / items] : sizes(shape, "shape");
    if (elementsOf(this.shape) * items !== data.length) {
      refuse(
        "data",
        `has ${data.length} items; shape [${this.shape}] of ${this.dtype.name} needs ${elementsOf(this.shape) * items}`,
      );
    }
  }

  /** The array as a storage's bytes; the array's own memory where its elements are not packed. */
  bytes(): Uint8Array {
    const { buffer, byteOffset, byteLength } = this.data;
    const items = new Uint8Array(buffer, byteOffset, byteLength);
    return isPacked(this.dtype) ? packed(items, this.dtype.bits) : items;
  }

  /** The array of a storage's bytes, in C order; without a copy where elements are not packed. */
  static ofBytes(bytes: Uint8Array, shape: readonly number[], type: DType): NdArray {
    const items = isPacked(type) ? unpacked(bytes, type, elementsOf(shape)) : aligned(bytes, type);
    const kind = constructorOf(type);
    return new NdArray(
      new kind(items.buffer, items.byteOffset, elementsOf(shape) * itemsOf(type)),
      shape,
      type,
    );
  }

  /** As `console.log` shows it. */
  [inspect.custom](depth: number, options: InspectOptions): string {
    const items = inspect(this.data, { ...options, depth });
    return `NdArray [${this.shape.join(", ")}] of ${this.dtype.name} ${items}`;
  }

  /** An array of zeros. */
  static zeros(shape: readonly number[], type: DType): NdArray {
    return NdArray.ofBytes(new Uint8Array(storageBytes(type, elementsOf(shape))), shape, type);
  }
}

/** An array, or a typed array, which has one dimension. */
export type ArrayLike = NdArray | TypedArray;

/** Gives a typed array a shape, and an element type where its own is not meant. */
export function array<T extends TypedArray>(
  data: T,
  shape?: Iterable<number | bigint>,
  type?: DTypeLike,
): NdArray<T> {
  return new NdArray(data, shape, type);
}

/** Element type of a typed array; undefined for anything else. */
function typed(value: unknown): DType | undefined {
  return ArrayBuffer.isView(value) ? DTYPE_OF.get(value.constructor.name) : undefined;
}

/** Whether it is an array or a typed array. */
export function isArray(value: unknown): value is ArrayLike {
  return value instanceof NdArray || typed(value) !== undefined;
}

/** The array that the caller gave. */
export function asArray(value: ArrayLike): NdArray {
  return value instanceof NdArray ? value : new NdArray(value);
}

/** Bytes that begin where an item of their type can. */
function aligned(bytes: Uint8Array, type: DType): Uint8Array {
  const item = Math.min(8, type.bits / 8);
  return bytes.byteOffset % item === 0 ? bytes : new Uint8Array(bytes);
}

function packed(codes: Uint8Array, bits: number): Uint8Array {
  const storage = new Uint8Array(Math.ceil((codes.length * bits) / 8));
  codes.forEach((code, element) => {
    for (let bit = 0; bit < bits; bit++) {
      const place = element * bits + bit;
      storage[place >> 3]! |= ((code >> bit) & 1) << (place & 7);
    }
  });
  return storage;
}

function unpacked(storage: Uint8Array, type: DType, elements: number): Uint8Array {
  const codes = new Uint8Array(elements);
  const sign = type.kind === "signed" ? 1 << (type.bits - 1) : 0;
  for (let element = 0; element < elements; element++) {
    let code = 0;
    for (let bit = 0; bit < type.bits; bit++) {
      const place = element * type.bits + bit;
      code |= ((storage[place >> 3]! >> (place & 7)) & 1) << bit;
    }
    codes[element] = (code ^ sign) - sign; // fills the bits above the sign's
  }
  return codes;
}
