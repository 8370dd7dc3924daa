/** Memory: uploads, downloads, views and buffers, against a server. */

import assert from "node:assert/strict";
import test, { after, before } from "node:test";
import { array, type Context, connect, type DTypeLike, type TypedArray } from "../src/index.js";
import { type Program, serve } from "./bench.js";

let program: Program;
let context: Context;

before(async () => {
  const [started, address] = await serve();
  program = started;
  context = await connect(address);
});

after(async () => {
  await context.close();
  await program.stop();
});

const BYTES = Uint8Array.from({ length: 256 }, (_, index) => (index * 37) & 255);

test("every typed array comes back, bit by bit", async () => {
  const { buffer } = BYTES;
  const arrays: [TypedArray, DTypeLike | undefined][] = [
    [new Float32Array(buffer), undefined],
    [new Float64Array(buffer), undefined],
    [new Int8Array(buffer), undefined],
    [BYTES, undefined],
    [new Uint8ClampedArray(buffer), undefined],
    [new Int16Array(buffer), undefined],
    [new Uint16Array(buffer), undefined],
    [new Uint16Array(buffer), "float16"],
    [new Uint16Array(buffer), "bfloat16"],
    [new Int32Array(buffer), undefined],
    [new Uint32Array(buffer), undefined],
    [new BigInt64Array(buffer), undefined],
    [new BigUint64Array(buffer), undefined],
    [new Float32Array(buffer), "complex64"],
    [new Float64Array(buffer), "complex128"],
    [new Uint16Array(buffer), "COMPLEX32"],
    [BYTES, "FLOAT8_E4M3FN"],
    [BYTES.map((value) => value & 1), "bool"],
    [Int8Array.from(BYTES, (value) => (value & 15) - 8), "int4"],
    [Buffer.from(buffer), undefined],
    [new Float32Array(buffer, 4, 7), undefined],
  ];
  for (const [data, type] of arrays) {
    const tensor = await context.tensor(data, undefined, type === undefined ? {} : { dtype: type });
    const back = await tensor.read();
    assert.deepEqual(
      Buffer.from(back.buffer, back.byteOffset, back.byteLength),
      Buffer.from(data.buffer, data.byteOffset, data.byteLength),
    );
    if (!(data instanceof Uint8ClampedArray) && !Buffer.isBuffer(data)) {
      assert.equal(back.constructor, data.constructor);
    }
    tensor.free();
  }
});

test("what was uploaded may be changed once the promise is kept", async () => {
  for (const count of [4, 5 * 2 ** 20]) {
    const data = new Uint8Array(count).fill(1);
    const tensor = await context.tensor(data);
    data.fill(2);
    assert.equal(
      (await tensor.read()).every((value) => value === 1),
      true,
    );
    tensor.free();
  }
});

test("large arrays of odd sizes, and parts of buffers", async () => {
  const data = new Uint8Array(5 * 2 ** 20 + 3).map((_, index) => (index * 31) >> 3);
  const buffer = context.malloc(data.length + 10)!;
  await buffer.write(data, { offset: 7 });
  assert.deepEqual(await buffer.read({ offset: 7, size: data.length }), data);
  assert.deepEqual(await buffer.read({ offset: data.length + 7 }), new Uint8Array(3));
  buffer.fill(255);
  assert.deepEqual(await buffer.read({ size: 2 }), Uint8Array.of(255, 255));
  const copy = context.malloc(20)!;
  await buffer.write(Float32Array.of(1, 2), { offset: 8 });
  copy.copyFrom(buffer, { sourceOffset: 8, size: 8, offset: 4, stream: context.defaultStream });
  assert.deepEqual(
    new Float32Array((await copy.read({ offset: 4, size: 8 })).buffer),
    Float32Array.of(1, 2),
  );
  for (const range of [{ offset: -1 }, { offset: 21 }, { size: 21 }, { offset: 20, size: 1 }]) {
    await assert.rejects(copy.read(range), { code: 161002, parameter: "offset" });
  }
  assert.throws(() => copy.fill(256), { code: 161002 });
});

test("views over a storage", async () => {
  const whole = await context.tensor(
    Float32Array.from({ length: 12 }, (_, index) => index),
    [3, 4],
  );
  const over = (shape: number[], strides: number[], offset: number) =>
    context.createTensor(shape, "FLOAT", {
      strides,
      offset,
      storageShape: [3, 4],
      buffer: whole.buffer,
    });
  assert.deepEqual(
    [...(await over([4, 3], [1, 4], 0).read())],
    [0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11],
  );
  assert.deepEqual([...(await over([2, 2], [-4, -2], 11).read())], [11, 9, 7, 5]);
  const block = over([2, 2], [4, 1], 5);
  await over([3, 4], [4, 1], 0).write(new Float32Array(12).fill(7));
  await assert.rejects(block.write(new Float32Array(4)), /leave gaps in its storage/);
  await over([4, 3], [1, 4], 0).write(
    array(
      Float32Array.from({ length: 12 }, (_, i) => i),
      [4, 3],
    ),
  );
  assert.deepEqual([...(await whole.read())], [0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11]);
  await assert.rejects(whole.write(new Float32Array(11)), /has 11 items/);
  await assert.rejects(whole.write(array(new Float32Array(12), [12])), /the tensor has \[3,4\]/);
  await assert.rejects(over([3, 4], [4, 1], 1).read(), { code: 561103 });
});

test("tensors without elements, and without dimensions", async () => {
  const none = await context.tensor(new Float32Array(0), [0, 3]);
  assert.deepEqual(await none.read(), new Float32Array(0));
  assert.deepEqual((await none.array()).shape, [0, 3]);
  const one = await context.tensor(BigInt64Array.of(-5n), []);
  assert.deepEqual(await one.read(), BigInt64Array.of(-5n));
  assert.equal(context.malloc(0), null);
});

test("tensors that cannot be are refused", () => {
  const make =
    (shape: unknown, type: unknown, options = {}) =>
    () =>
      context.createTensor(shape as never, type as never, options);
  const cases: [() => unknown, string][] = [
    [make([-1], "FLOAT"), "shape[0]"],
    [make(5, "FLOAT"), "shape"],
    [make([2], "nix"), "dtype"],
    [make([2], "FLOAT", { strides: [1, 1] }), "strides"],
    [make([2], "FLOAT", { strides: [0.5] }), "strides[0]"],
    [make([2], "FLOAT", { offset: "1" }), "offset"],
    [make([2], "FLOAT", { format: "nix" }), "format"],
    [make([2], "FLOAT", { storageShape: [-1] }), "storageShape[0]"],
    [make([2 ** 60], "FLOAT"), "shape[0]"],
    [make([2], "FLOAT", { buffer: context.malloc(7) }), "buffer"],
    [make([2], "FLOAT", { buffer: {} }), "buffer"],
  ];
  for (const [act, parameter] of cases) assert.throws(act, { code: 161002, parameter });
});

test("a format whose order is not known here can be read as bytes only", async () => {
  const tensor = context.createTensor([16, 16], "FLOAT16", { format: "FRACTAL_NZ" });
  await assert.rejects(tensor.read(), { code: 207000 });
  assert.equal((await tensor.buffer.read()).length, 512);
});

test("what nothing refers to any more is freed on the server", async (t) => {
  const { gc } = globalThis as { gc?: () => void };
  if (gc === undefined) return t.skip("needs node --expose-gc");
  const before = (await context.usage()).buffers;
  for (let turn = 0; turn < 20; turn++) context.empty([1], "FLOAT");
  let left = Number.POSITIVE_INFINITY;
  while (left > before + 1) {
    gc();
    await new Promise((resolve) => setImmediate(resolve));
    left = (await context.usage()).buffers;
  }
});
