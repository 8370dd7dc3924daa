/** Views over storages, without a server. */

import assert from "node:assert/strict";
import test from "node:test";
import { array, dtype } from "../src/index.js";
import { TensorSpec } from "../src/spec.js";
import { fromSpan, toSpan } from "../src/views.js";

const FLOAT = dtype("FLOAT");
const storage = (count: number): Uint8Array =>
  new Uint8Array(Float32Array.from({ length: count }, (_, index) => index).buffer);

/** Elements of a view of a storage that holds 0, 1, 2 … */
function elements(spec: TensorSpec): number[] {
  const [first, end] = spec.byteSpan;
  return [...fromSpan(spec, storage(spec.storageElements).subarray(first, end)).data].map(Number);
}

test("reach, contiguity, overlap", () => {
  const spec = (shape: number[], strides: number[], offset = 0) =>
    new TensorSpec(FLOAT, shape, strides, offset, [100]);
  assert.deepEqual(spec([2, 3], [3, 1]).reach, [0, 6]);
  assert.deepEqual(spec([2, 3], [-3, 1], 3).reach, [0, 6]);
  assert.deepEqual(spec([0, 3], [3, 1], 7).reach, [7, 7]);
  assert.equal(spec([2, 3], [3, 1]).isContiguous, true);
  assert.equal(spec([1, 3], [77, 1]).isContiguous, true);
  assert.equal(spec([2, 3], [1, 2]).isContiguous, false);
  assert.equal(spec([2, 3], [1, 2]).overlapsItself, false);
  assert.equal(spec([2, 3], [0, 1]).overlapsItself, true);
  assert.equal(spec([2, 3], [2, 1]).overlapsItself, true);
  assert.equal(spec([2, 3], [1, 2]).fillsSpan, true);
  assert.equal(spec([2, 3], [6, 2]).fillsSpan, false);
});

test("views are read in C order", () => {
  const view = (shape: number[], strides: number[], offset: number, size = 24) =>
    elements(new TensorSpec(FLOAT, shape, strides, offset, [size]));
  assert.deepEqual(view([2, 3], [3, 1], 4), [4, 5, 6, 7, 8, 9]);
  assert.deepEqual(view([3, 2], [1, 3], 0), [0, 3, 1, 4, 2, 5]);
  assert.deepEqual(view([3], [-2], 23), [23, 21, 19]);
  assert.deepEqual(view([2, 2, 2], [0, 12, -1], 5), [5, 4, 17, 16, 5, 4, 17, 16]);
  assert.deepEqual(view([], [], 9), [9]);
});

test("views are written as they lie", () => {
  const spec = new TensorSpec(FLOAT, [2, 3], [-1, 2], 1, [6]);
  const span = toSpan(spec, array(Float32Array.of(1, 2, 3, 4, 5, 6), [2, 3]));
  assert.deepEqual([...new Float32Array(span.buffer)], [4, 1, 5, 2, 6, 3]);
  assert.deepEqual([...fromSpan(spec, span).data], [1, 2, 3, 4, 5, 6]);
});

test("packed elements of a view", () => {
  const four = dtype("int4");
  const given = array(Int8Array.of(1, -2, 3, -4, 5, -6), [2, 3], "int4");
  const transposed = new TensorSpec(four, [3, 2], [1, 3], 0, [2, 3]);
  assert.deepEqual([...fromSpan(transposed, given.bytes()).data], [1, -4, -2, 5, 3, -6]);
});

test("sizes that JavaScript cannot count are refused", () => {
  const refused = { code: 161002, parameter: "t" };
  assert.throws(() => new TensorSpec(FLOAT, [2 ** 40, 2 ** 12]).check("t"), refused);
  assert.throws(() => new TensorSpec(FLOAT, [0, 2 ** 52]).check("t"), refused);
  assert.throws(() => new TensorSpec(FLOAT, new Array(65).fill(1)).check("t"), refused);
  assert.throws(() => new TensorSpec(FLOAT, [2 ** 30], [2 ** 30], 0, [1]).check("t"), refused);
});
