/** Elements of a view between its storage and C order. */

import { NdArray as Arrays, type NdArray } from "./arrays.js";
import { isPacked } from "./dtypes.js";
import { UnsupportedError } from "./errors.js";
import { contiguousStrides, type TensorSpec } from "./spec.js";

/**
 * Checks that it is known where the elements of a tensor lie.
 *
 * @throws UnsupportedError 207000: it is not.
 */
export function checkPlain(spec: TensorSpec): void {
  if (spec.isPlain) return;
  throw new UnsupportedError(
    `where elements in format ${spec.format} lie is not known here; use the bytes of tensor.buffer`,
  );
}

/** Whether the bytes of the view's span are just those of an array in C order. */
export function isDirect(spec: TensorSpec): boolean {
  return spec.isContiguous && !isPacked(spec.dtype);
}

/** The elements of a view in C order. `span` is the bytes that `spec.byteSpan` names. */
export function fromSpan(spec: TensorSpec, span: Uint8Array): NdArray {
  const { dtype, shape } = spec;
  if (isDirect(spec)) return Arrays.ofBytes(span, shape, dtype);
  const items = isPacked(dtype) ? Arrays.ofBytes(span, [spec.reach[1]], dtype).data : span;
  const bytes = isPacked(dtype) ? 1 : dtype.bits / 8;
  const result = new Uint8Array(spec.elements * bytes);
  const start = isPacked(dtype) ? spec.offset : spec.offset - spec.reach[0];
  const source = new Uint8Array(items.buffer, items.byteOffset, items.byteLength);
  copy(shape, bytes, [result, 0, contiguousStrides(shape)], [source, start, spec.strides]);
  if (!isPacked(dtype)) return Arrays.ofBytes(result, shape, dtype);
  const codes = Arrays.zeros(shape, dtype);
  new Uint8Array(codes.data.buffer).set(result);
  return codes;
}

/** The bytes that `spec.byteSpan` names, with the elements of an array laid out as a view that fills them. */
export function toSpan(spec: TensorSpec, array: NdArray): Uint8Array {
  const bytes = array.bytes();
  if (spec.isContiguous) return bytes;
  const [first, end] = spec.byteSpan;
  const span = new Uint8Array(end - first);
  const start = spec.offset - spec.reach[0];
  copy(
    spec.shape,
    spec.dtype.bits / 8,
    [span, start, spec.strides],
    [bytes, 0, contiguousStrides(spec.shape)],
  );
  return span;
}

/** One side of a copy: memory, and where the elements lie in it. */
type Side = readonly [memory: Uint8Array, offset: number, strides: readonly number[]];

/** Copies elements of a shape, one by one, from one layout to another. */
function copy(shape: readonly number[], bytes: number, to: Side, from: Side): void {
  const axes = shape.length;
  const index = new Array<number>(axes).fill(0);
  let [target, source] = [to[1], from[1]];
  for (let left = shape.reduce((product, size) => product * size, 1); left > 0; left--) {
    for (let byte = 0; byte < bytes; byte++)
      to[0][target * bytes + byte] = from[0][source * bytes + byte]!;
    for (let axis = axes - 1; axis >= 0; axis--) {
      target += to[2][axis]!;
      source += from[2][axis]!;
      index[axis]! += 1;
      if (index[axis]! < shape[axis]!) break;
      target -= to[2][axis]! * shape[axis]!;
      source -= from[2][axis]! * shape[axis]!;
      index[axis] = 0;
    }
  }
}
