/** Tensors: a dtype, a format, and a view over the storage that a buffer holds. */

import { encodeTensor } from "./arguments.js";
import { type ArrayLike, asArray, isArray, NdArray, type TypedArray } from "./arrays.js";
import type { DeviceBuffer } from "./buffer.js";
import type { Context } from "./context.js";
import type { DType } from "./dtypes.js";
import { Argument } from "./generated/messages/aclnn/v1/tensor.js";
import { refuse, shown } from "./refusing.js";
import { TensorSpec } from "./spec.js";
import type { WaitOptions } from "./submit.js";
import { upload } from "./transfer.js";
import { checkPlain, fromSpan, toSpan } from "./views.js";

/** A tensor in device memory. */
export class Tensor {
  /** The tensor as it stands in a request; written when it is first used. */
  private encoded: Uint8Array | undefined;
  /** Phase two of an operator that is to tell the shape, until it has. */
  private shaping: Promise<void> | undefined;

  /** Lays a tensor over a buffer; made by `context.createTensor` and the like. */
  constructor(
    private layout: TensorSpec,
    /** Buffer that begins with its storage. */
    readonly buffer: DeviceBuffer,
  ) {}

  /** How it lies over its storage. */
  get spec(): TensorSpec {
    return this.layout;
  }

  /** Context that it belongs to. */
  get context(): Context {
    return this.buffer.context;
  }

  /** Dimensions of the view. */
  get shape(): readonly number[] {
    return this.spec.shape;
  }

  /** Element type. */
  get dtype(): DType {
    return this.spec.dtype;
  }

  /** Elements between neighbours along each dimension. */
  get strides(): readonly number[] {
    return this.spec.strides;
  }

  /** Elements from the start of the storage to the view's first. */
  get offset(): number {
    return this.spec.offset;
  }

  /** Dimensions of the storage. */
  get storageShape(): readonly number[] {
    return this.spec.storageShape;
  }

  /** ACL's name of the storage's format, for example `"ND"`. */
  get format(): string {
    return this.spec.format;
  }

  /** Elements of the view. */
  get size(): number {
    return this.spec.elements;
  }

  /** The tensor as it stands in a request. */
  get argument(): Uint8Array {
    this.encoded ??= Argument.encode({
      value: {
        $case: "tensor",
        value: encodeTensor(this.spec, { $case: "bufferId", value: this.buffer.bufferId }),
      },
    }).finish();
    return this.encoded;
  }

  /**
   * Takes a smaller shape once it is told, and none where nothing is: the elements are the first of the view, in C
   * order. What an operator does to its result that is as large as its elements make it.
   */
  takeShape(told: Promise<readonly number[] | undefined>): void {
    const shaping = told.then((shape) => {
      if (this.shaping === shaping) this.shaping = undefined;
      if (shape === undefined) return;
      const { dtype, offset, storageShape, format, isContiguous, strides } = this.layout;
      const kept = isContiguous ? undefined : strides;
      this.layout = new TensorSpec(dtype, shape, kept, offset, storageShape, format);
      this.encoded = undefined;
    });
    this.shaping = shaping;
  }

  /** Frees its buffer, and so every tensor over it. */
  free(): void {
    this.buffer.free();
  }

  [Symbol.dispose](): void {
    this.free();
  }

  /**
   * Downloads the view, after queued work that uses its buffer.
   *
   * @returns the elements in C order, as {@link NdArray.data} has them.
   * @throws UnsupportedError 207000: it is not known where elements of the format lie.
   * @throws AclnnError: work that used the buffer, or a command before, failed.
   */
  async read(options?: WaitOptions): Promise<TypedArray> {
    return (await this.array(options)).data;
  }

  /** As {@link read}, with shape and element type. */
  async array(options?: WaitOptions): Promise<NdArray> {
    await this.shaping;
    const { spec } = this;
    checkPlain(spec);
    if (spec.elements === 0) return NdArray.zeros(spec.shape, spec.dtype);
    spec.checkReach("tensor");
    const [first, end] = spec.byteSpan;
    const span = new Uint8Array(end - first);
    await this.buffer.readInto(span, first, options);
    return fromSpan(spec, span);
  }

  /**
   * Uploads into the view, after queued work that uses its buffer; resolves when the array may be changed.
   *
   * @param array as many elements as the tensor has, of its type, in C order.
   * @throws InvalidParameterError 161002: it does not fit, or the view leaves gaps in its storage.
   */
  async write(array: ArrayLike, options?: WaitOptions): Promise<void> {
    const { spec } = this;
    checkPlain(spec);
    if (!isArray(array)) refuse("array", `is ${shown(array)}, which is no array`);
    const given = array instanceof NdArray ? array : new NdArray(array, spec.shape, spec.dtype);
    if (given.dtype !== spec.dtype || String(given.shape) !== String(spec.shape)) {
      refuse(
        "array",
        `has shape [${given.shape}] of ${given.dtype.name}; the tensor has [${spec.shape}] of ${spec.dtype.name}`,
      );
    }
    if (spec.elements === 0) return;
    spec.checkReach("tensor");
    if (!spec.fillsSpan) {
      refuse(
        "tensor",
        `has strides [${spec.strides}], which leave gaps in its storage or repeat elements: it cannot be written from the client`,
      );
    }
    const { commands } = this.context;
    await upload(
      commands,
      this.buffer.bufferId,
      spec.byteSpan[0],
      toSpan(spec, asArray(given)),
      options,
    );
  }

  /** What it is, in one line. */
  toString(): string {
    return `<Tensor [${this.shape}] of ${this.dtype.name}, buffer ${this.buffer.bufferId}>`;
  }
}
