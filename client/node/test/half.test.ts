import assert from "node:assert/strict";
import test from "node:test";
import { fromBfloat16, fromFloat16, toBfloat16, toFloat16 } from "../src/index.js";

const ALL = Uint16Array.from({ length: 65536 }, (_, bits) => bits);
const isNan = (bits: number, fraction: number, infinity: number): boolean =>
  (bits & 0x7fff) > infinity && (bits & fraction) !== 0;

test("every FLOAT16 number comes back from its value", () => {
  const back = toFloat16(fromFloat16(ALL));
  for (const bits of ALL) {
    if (isNan(bits, 0x3ff, 0x7c00)) assert.equal(back[bits], 0x7e00);
    else assert.equal(back[bits], bits);
  }
});

test("every bfloat16 number comes back from its value", () => {
  const back = toBfloat16(fromBfloat16(ALL));
  for (const bits of ALL) {
    if (isNan(bits, 0x7f, 0x7f80)) assert.equal(back[bits]! & 0x7fc0, 0x7fc0);
    else assert.equal(back[bits], bits);
  }
});

test("FLOAT16 rounds to nearest, halves to even", () => {
  const cases: [number, number][] = [
    [0, 0x0000],
    [-0, 0x8000],
    [1, 0x3c00],
    [-2, 0xc000],
    [65504, 0x7bff],
    [65519.999, 0x7bff],
    [65520, 0x7c00],
    [-1e9, 0xfc00],
    [1 + 2 ** -11, 0x3c00], // half way between 1 and the next: even is 1
    [1 + 3 * 2 ** -11, 0x3c02],
    [1 + 2 ** -11 + 2 ** -40, 0x3c01], // above half way, by less than a float32 has
    [2 - 2 ** -11, 0x4000], // carries into the exponent
    [2 ** -24, 0x0001],
    [2 ** -25, 0x0000],
    [2 ** -25 * 1.001, 0x0001],
    [2 ** -14 - 2 ** -26, 0x0400], // rounds up to the smallest normal number
    [Number.POSITIVE_INFINITY, 0x7c00],
  ];
  assert.deepEqual(
    [...toFloat16(cases.map(([value]) => value))],
    cases.map(([, bits]) => bits),
  );
});

test("bfloat16 rounds to nearest, halves to even", () => {
  const cases: [number, number][] = [
    [1, 0x3f80],
    [-0, 0x8000],
    [1 + 2 ** -8, 0x3f80],
    [1 + 3 * 2 ** -8, 0x3f82],
    [1 + 2 ** -8 + 2 ** -20, 0x3f81],
    [3.4e38, 0x7f80],
    [Number.NEGATIVE_INFINITY, 0xff80],
  ];
  assert.deepEqual(
    [...toBfloat16(cases.map(([value]) => value))],
    cases.map(([, bits]) => bits),
  );
});
