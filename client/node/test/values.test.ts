/** What callers give: numbers, element types, arrays, scalars, addresses. No server. */

import assert from "node:assert/strict";
import test from "node:test";
import { isLocal, targetOf } from "../src/address.js";
import { asScalar, plainArgument } from "../src/arguments.js";
import {
  array,
  type DTypeLike,
  dtype,
  InvalidParameterError,
  NdArray,
  Scalar,
  type ScalarValue,
} from "../src/index.js";
import type { Kind } from "../src/kinds.js";

const refused = { name: "ACLNN_ERR_PARAM_INVALID", code: 161002 };

test("element types by ACL's names, NumPy's and ACL's numbers", () => {
  for (const given of ["FLOAT", "ACL_FLOAT", "float32", 0] as DTypeLike[]) {
    assert.equal(dtype(given).name, "FLOAT");
  }
  for (const given of ["BF16", "bfloat16", 27, dtype("BF16")] as DTypeLike[]) {
    assert.equal(dtype(given).name, "BF16");
  }
  for (const given of ["nix", "constructor", 999, null, "STRING"]) {
    assert.throws(() => dtype(given as DTypeLike), refused);
  }
});

test("arrays have a shape, and the element type of their memory", () => {
  assert.deepEqual(array(new Float32Array(6), [2, 3]).shape, [2, 3]);
  assert.equal(array(new BigInt64Array(2)).dtype.name, "INT64");
  assert.equal(array(Buffer.of(1, 2)).dtype.name, "UINT8");
  assert.equal(array(new Uint16Array(2), [2], "BF16").dtype.name, "BF16");
  assert.deepEqual(array(new Float32Array(6), [3], "complex64").shape, [3]);
  assert.deepEqual(array(new Float32Array(1), []).shape, []);
  assert.deepEqual(array(new Float32Array(0), [0, 5n]).shape, [0, 5]);
});

test("arrays that cannot be are refused", () => {
  const cases: [() => unknown, RegExp][] = [
    [() => array(new Float32Array(5), [2, 3]), /has 5 items; shape \[2,3\] of FLOAT needs 6/],
    [
      () => array(new Float32Array(2), [2], "BF16"),
      /is a Float32Array; elements of BF16 are a Uint16Array/,
    ],
    [
      () => array(new Float32Array(2), [-2]),
      /shape\[0\] is -2; it must be an integer of at least 0/,
    ],
    [() => array(new Float32Array(2), [1.5]), /shape\[0\] is 1.5/],
    [() => array([1, 2] as never), /data is \[1, 2\], which is no typed array/],
    [() => array(new DataView(new ArrayBuffer(4)) as never), /which is no typed array/],
  ];
  for (const [make, message] of cases) assert.throws(make, { ...refused, message });
});

test("packed elements: first in the lowest bits, and back", () => {
  const four = array(Int8Array.of(1, -1, 7, -8, 3), [5], "int4");
  assert.deepEqual([...four.bytes()], [0xf1, 0x87, 0x03]);
  assert.deepEqual(NdArray.ofBytes(four.bytes(), [5], dtype("int4")).data, four.data);
  const bits = array(Uint8Array.of(1, 0, 1, 1, 0, 0, 0, 0, 1), [9], "UINT1");
  assert.deepEqual([...bits.bytes()], [0x0d, 0x01]);
  const six = array(Uint8Array.of(0x3f, 0x01, 0x20), [3], "FLOAT6_E3M2");
  assert.deepEqual([...six.bytes()], [0x7f, 0x00, 0x02]);
  assert.deepEqual(NdArray.ofBytes(six.bytes(), [3], dtype("FLOAT6_E3M2")).data, six.data);
});

test("scalars are one little-endian element", () => {
  const cases: [ScalarValue, DTypeLike, string][] = [
    [1, "FLOAT", "0000803f"],
    [-2, "FLOAT16", "00c0"],
    [1, "BF16", "803f"],
    [0.1, "DOUBLE", "9a9999999999b93f"],
    [-(2n ** 63n), "INT64", "0000000000000080"],
    [2n ** 64n - 1n, "UINT64", "ffffffffffffffff"],
    [-1, "INT8", "ff"],
    [300, "INT16", "2c01"],
    [true, "BOOL", "01"],
    [[1, -1], "COMPLEX64", "0000803f000080bf"],
    [2, "COMPLEX128", "00000000000000400000000000000000"],
  ];
  for (const [value, type, hex] of cases) {
    assert.equal(Buffer.from(new Scalar(value, type).bytes).toString("hex"), hex);
  }
});

test("scalars that do not fit are refused", () => {
  const cases: [ScalarValue, DTypeLike][] = [
    [128, "INT8"],
    [-1, "UINT8"],
    [1.5, "INT32"],
    [2n ** 63n, "INT64"],
    [[1, 2], "FLOAT"],
    [1, "STRING"],
    [1, "COMPLEX32"],
    [Number.NaN, "INT32"],
  ];
  for (const [value, type] of cases) assert.throws(() => new Scalar(value, type), refused);
});

test("what a number is as an aclScalar", () => {
  const types = [true, 5n, 5, 2 ** 53 - 1, 0.5, 2 ** 53, -0, Number.NaN].map(
    (value) => asScalar(value)?.dtype.name,
  );
  assert.deepEqual(types, ["BOOL", "INT64", "INT64", "INT64", "FLOAT", "FLOAT", "FLOAT", "FLOAT"]);
  assert.equal(asScalar("5"), undefined);
  assert.equal(asScalar(null), undefined);
});

test("arguments of every kind, at their limits", () => {
  const encode = (kind: Kind, given: unknown) =>
    plainArgument(
      { name: "p", cType: "T", kind, output: false, optional: false, shapedByData: false },
      given,
      "aclnnX",
    );
  const good: [Kind, unknown, unknown][] = [
    ["int64Value", -(2n ** 63n), -(2n ** 63n)],
    ["int64Value", 5, 5n],
    ["uint64Value", 2n ** 64n - 1n, 2n ** 64n - 1n],
    ["int32Value", -(2 ** 31), -(2 ** 31)],
    ["int8Value", -128, -128],
    ["boolValue", 1, true],
    ["doubleValue", 0.1, 0.1],
    ["floatValue", 2n, 2],
    ["text", "grüße\u0000", "grüße\u0000"],
    ["dataType", "FLOAT16", 2],
    ["intArray", BigInt64Array.of(1n, -1n), { values: [1n, -1n] }],
    ["floatArray", [0.5, Number.NaN], { values: [0.5, Number.NaN] }],
    ["boolArray", [true, 0], { values: [true, false] }],
    ["intArray", [], { values: [] }],
  ];
  for (const [kind, given, value] of good)
    assert.deepEqual(encode(kind, given), { $case: kind, value });
  const bad: [Kind, unknown][] = [
    ["int64Value", 2n ** 63n],
    ["int64Value", 2 ** 53],
    ["int64Value", 1.5],
    ["int64Value", "1"],
    ["uint64Value", -1],
    ["int32Value", 2 ** 31],
    ["int8Value", 128],
    ["boolValue", 2],
    ["boolValue", "true"],
    ["doubleValue", "1"],
    ["floatValue", 2n ** 53n + 1n],
    ["text", 5],
    ["dataType", {}],
    ["intArray", [1, 0.5]],
    ["intArray", 5],
    ["intArray", "12"],
    ["boolArray", [2]],
    ["scalarList", [1, "x"]],
    ["scalar", "x"],
  ];
  for (const [kind, given] of bad) {
    assert.throws(() => encode(kind, given), { ...refused, operator: "aclnnX", parameter: "p" });
  }
});

test("addresses", () => {
  const good: [string, string, boolean][] = [
    ["localhost:50051", "dns:///localhost:50051", true],
    ["127.0.0.1:1", "dns:///127.0.0.1:1", true],
    ["[::1]:50051", "dns:///[::1]:50051", true],
    ["npu-7.lan:65535", "dns:///npu-7.lan:65535", false],
    ["unix:/run/a.sock", "unix:/run/a.sock", true],
    ["unix:///run/a.sock", "unix:/run/a.sock", true],
  ];
  for (const [address, target, local] of good) {
    assert.equal(targetOf(address), target);
    assert.equal(isLocal(target), local);
  }
  for (const address of [
    "",
    "host",
    ":1",
    "host:",
    "host:0",
    "host:70000",
    "::1:5",
    "http://h:1",
    "a b:1",
    "unix:",
  ]) {
    assert.throws(() => targetOf(address), { ...refused, parameter: "address" });
  }
  assert.throws(() => targetOf(5 as never), InvalidParameterError);
});
