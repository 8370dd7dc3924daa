/** Operators in one line, against a server: every one as the Python client has it. */

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import test, { after, before } from "node:test";
import { FORMS } from "../src/generated/catalogue.js";
import {
  type AclnnError,
  array,
  type Context,
  connect,
  type DTypeName,
  dtype,
  type Input,
  NdArray,
  Scalar,
  type ScalarValue,
  Tensor,
} from "../src/index.js";
import { PROJECT, type Program, PYTHON, serve } from "./bench.js";

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

/** An array as one_lines.py writes it. */
interface Written {
  dtype: DTypeName;
  shape: number[];
  hex: string;
}

interface Call {
  name: string;
  inputs: (Written | Written[])[];
  attributes: Record<string, unknown>;
  results?: Written[];
  refused?: number;
}

function read({ dtype: name, shape, hex }: Written): NdArray {
  return NdArray.ofBytes(Uint8Array.from(Buffer.from(hex, "hex")), shape, dtype(name));
}

function write(given: NdArray): Written {
  const hex = Buffer.from(given.bytes()).toString("hex");
  return { dtype: given.dtype.name, shape: [...given.shape], hex };
}

function attribute(value: unknown): unknown {
  if (typeof value !== "object" || value === null || !("scalar" in value)) return value;
  const { scalar, dtype } = value as { scalar: ScalarValue; dtype: DTypeName };
  return new Scalar(scalar, dtype);
}

test("every form gives what the Python client gives, bit by bit", async () => {
  const module = "tests.conformance.one_lines";
  const told = spawnSync(PYTHON, ["-m", module, context.address], {
    cwd: PROJECT,
    encoding: "utf8",
  });
  assert.equal(told.stderr, "");
  const calls: Call[] = told.stdout
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
  assert.deepEqual([...new Set(calls.map(({ name }) => name))].sort(), Object.keys(FORMS).sort());
  for (const { name, inputs, attributes, results, refused } of calls) {
    const given = inputs.map((input) => (Array.isArray(input) ? input.map(read) : read(input)));
    const options = Object.fromEntries(
      Object.entries(attributes).map(([key, value]) => [key, attribute(value)]),
    );
    const made = context.ops.call(name, given, options).then(
      (result) => ({ results: [result].flat().map((row) => write(row as NdArray)) }),
      (error: AclnnError) => ({ refused: error.code }),
    );
    assert.deepEqual(await made, refused === undefined ? { results } : { refused }, name);
  }
});

test("typed methods: arrays in, array out", async () => {
  const grad = array(new Float32Array(8).fill(1), [4, 2]);
  const x = array(Float32Array.of(0, 1, 2, 3, 4, 5, 6, 7), [4, 2]);
  const options = { reduction: "mean", beta: 1 } as const;
  const gradient = await context.ops.smoothL1LossBackward(grad, x, grad, options);
  assert.deepEqual(gradient.shape, [4, 2]);
  assert.deepEqual([...gradient.data], [-0.125, 0, ...new Array(6).fill(0.125)]);
  const [largest, where] = await context.ops.maxDim(x, { dim: 1 });
  assert.deepEqual([...largest.data], [1, 3, 5, 7]);
  assert.deepEqual(where.data, BigInt64Array.of(1n, 1n, 1n, 1n));
  const range = await context.ops.arange({ start: 0, end: 3n });
  assert.deepEqual(range.data, BigInt64Array.of(0n, 1n, 2n));
  const halves = await context.ops.cast(Float32Array.of(1.5), { dtype: "bfloat16" });
  assert.deepEqual(halves.data, Uint16Array.of(0x3fc0));
});

test("a tensor in, a tensor out, and nobody waits", async () => {
  const x: Tensor = await context.tensor(Float32Array.of(1, 2));
  const sum: Tensor = await context.ops.add(x, Float32Array.of(10, 20), { alpha: 2 });
  assert.ok(sum instanceof Tensor);
  const joined: Tensor = await context.ops.cat([x, sum, Float32Array.of(7)]);
  assert.deepEqual([...(await joined.read())], [1, 2, 21, 42, 7]);
  const stream = await context.createStream();
  const negated = await context.ops.neg(joined, { stream });
  await stream.synchronize();
  assert.deepEqual([...(await negated.read())], [-1, -2, -21, -42, -7]);
});

test("large arrays take the way over buffers, in lists too", async () => {
  const count = 400_000;
  const x = new Float32Array(count).map((_, index) => index);
  const sum = await context.ops.add(x, x);
  assert.equal(sum.data[count - 1], 2 * (count - 1));
  const stacked = await context.ops.stack([x, x.map((value) => -value)], { dim: 1 });
  assert.deepEqual(stacked.shape, [count, 2]);
  assert.deepEqual([...stacked.data.slice(-2)], [count - 1, 1 - count]);
  const mixed = await context.ops.add(await context.tensor(x), x);
  assert.equal((await mixed.read())[7], 14);
  assert.ok((await context.usage()).buffers < 20);
});

test("many at once share requests", async () => {
  const before = context.commands.submitter.requestsSent;
  const calls = Array.from({ length: 200 }, (_, index) => context.ops.neg(Int32Array.of(index)));
  const results = await Promise.all(calls);
  assert.deepEqual(
    results.map(({ data }) => data[0]),
    Array.from({ length: 200 }, (_, index) => 0 - index),
  );
  assert.equal(context.commands.submitter.requestsSent - before, 1);
});

test("what does not fit is refused, with operator and parameter", async () => {
  const x = Float32Array.of(1, 2, 3);
  const y = Float32Array.of(1, 2);
  const calls: [Promise<unknown>, object][] = [
    [context.ops.add(x, y), { code: 161002, operator: "aclnnAdd", message: /do not broadcast/ }],
    [context.ops.add(new Uint32Array(1), x), { code: 161002, message: /which meet in none/ }],
    [
      context.ops.smoothL1Loss(x, x, { reduction: "nix" as never }),
      { code: 161002, parameter: "reduction" },
    ],
    [context.ops.relu(x, { nix: 1 } as never), { code: 161002, parameter: "nix" }],
    [context.ops.permute(x, { dims: [1] }), { code: 161002, operator: "aclnnPermute" }],
    [context.ops.slice(x, { step: 0 }), { code: 161002, message: /the step is zero/ }],
    [context.ops.softmax(x, { dim: 0.5 }), { code: 161002, parameter: "dim" }],
    [context.ops.neg(5 as unknown as Input), { code: 161002, parameter: "self" }],
    [context.ops.call("neg", []), { code: 161002, parameter: "inputs" }],
    [context.ops.cat([]), { code: 161002 }],
    [context.ops.call("nix", []), { code: 100024, message: /there is no operator "nix"/ }],
    [context.ops.call("constructor", []), { code: 100024 }],
  ];
  for (const [call, expected] of calls) await assert.rejects(call, expected);
  const other = await connect(context.address);
  const foreign = other.empty([1], "FLOAT");
  await assert.rejects(context.ops.neg(foreign), { parameter: "self", message: /another context/ });
  await assert.rejects(context.ops.neg(x, { stream: other.defaultStream }), {
    parameter: "stream",
  });
  await other.close();
});
