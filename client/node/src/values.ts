/** Arguments of a prototype: what callers give, as it travels, and what a plan is remembered by. */

import { encoded, encodeTensor, plainArgument } from "./arguments.js";
import { type ArrayLike, asArray, isArray, type NdArray } from "./arrays.js";
import type { DType } from "./dtypes.js";
import type { Tensor as TensorMessage } from "./generated/messages/aclnn/v1/tensor.js";
import { POINTERS } from "./kinds.js";
import { isIterable } from "./numbers.js";
import { refuse, shown } from "./refusing.js";
import type { Scalar } from "./scalar.js";
import type { Parameter, Signature } from "./signatures.js";
import { TensorSpec } from "./spec.js";
import { Tensor } from "./tensor.js";

/** A tensor; for an input also an array, which then travels with the call; null is a null pointer. */
export type TensorLike = Tensor | ArrayLike | null;
/** A {@link Scalar}, or a number: see {@link asScalar}; null is a null pointer. */
export type ScalarLike = Scalar | number | bigint | boolean | null;

/** An output that comes back with the answer of phase two. */
export class Returned {
  constructor(readonly spec: TensorSpec) {}
}

/** The arguments of one call, encoded. */
export interface Call {
  readonly signature: Signature;
  /** One per parameter, in order. */
  readonly messages: Uint8Array[];
  /** What equal calls have in common. */
  readonly key: string;
  /** Tensors with a buffer, by position of the argument and in its list. */
  readonly tensors: Map<string, Tensor>;
  /** Specs of all tensors, likewise. */
  readonly specs: Map<string, TensorSpec>;
}

/** Place of a tensor among the arguments: position of the argument, and in its list. */
export function slot(argument: number, element = 0): string {
  return `${argument},${element}`;
}

/** The tensors among the arguments of a call, those in lists too. */
export function* tensorsOf(values: readonly unknown[]): Iterable<Tensor> {
  for (const value of values) {
    if (value instanceof Tensor) yield value;
    else if (Array.isArray(value)) yield* value.filter((item) => item instanceof Tensor);
  }
}

/**
 * Encodes the arguments of a call.
 *
 * @param signature of the operator.
 * @param values one per parameter, in order: tensors, arrays, numbers, sequences, null.
 * @throws InvalidParameterError 161002: a value does not fit its parameter, or there are more or fewer.
 */
export function encode(signature: Signature, values: readonly unknown[]): Call {
  checkCount(signature, values);
  const call: Call = { signature, messages: [], key: "", tensors: new Map(), specs: new Map() };
  const keys = [signature.name];
  signature.parameters.forEach((parameter, position) => {
    const given = values[position];
    const [message, key] = encodeOne(call, parameter, position, given);
    call.messages.push(message);
    keys.push(key);
  });
  return { ...call, key: keys.join("|") };
}

function checkCount({ name, parameters }: Signature, values: readonly unknown[]): void {
  if (values.length === parameters.length) return;
  const missing = parameters[values.length]?.name ?? "";
  const names = parameters.map((row) => row.name).join(", ");
  refuse(
    missing,
    `- got ${values.length} arguments; it takes ${parameters.length}: ${names}`,
    name,
  );
}

type Encoded = readonly [message: Uint8Array, key: string];

function encodeOne(call: Call, parameter: Parameter, position: number, given: unknown): Encoded {
  const { kind } = parameter;
  if (given === undefined)
    refuse(parameter.name, "is undefined; null is a null pointer", call.signature.name);
  if (given === null && POINTERS.has(kind)) return [encoded({ $case: "null", value: {} }), "null"];
  if (kind === "tensor") return encodeTensorArgument(call, parameter, position, given);
  if (kind === "tensorList") return encodeList(call, parameter, position, given);
  const message = encoded(plainArgument(parameter, given, call.signature.name));
  return [message, Buffer.from(message).toString("latin1")];
}

function encodeTensorArgument(
  call: Call,
  parameter: Parameter,
  position: number,
  given: unknown,
): Encoded {
  const [spec, message] = asTensor(call, parameter, slot(position), given);
  const where = given instanceof Tensor ? "b" : "i";
  const bytes =
    given instanceof Tensor ? given.argument : encoded({ $case: "tensor", value: message() });
  return [bytes, where + spec.key];
}

function encodeList(call: Call, parameter: Parameter, position: number, given: unknown): Encoded {
  if (!isIterable(given) || isArray(given)) {
    refuse(parameter.name, `is ${shown(given)}, which is no list of tensors`, call.signature.name);
  }
  const rows = Array.from(given, (item, element) =>
    asTensor(call, parameter, slot(position, element), item),
  );
  const tensors = rows.map(([, message]) => message());
  const keys = rows.map(
    ([spec], element) => (call.tensors.has(slot(position, element)) ? "b" : "i") + spec.key,
  );
  return [encoded({ $case: "tensorList", value: { tensors } }), `[${keys}]`];
}

function asTensor(
  call: Call,
  parameter: Parameter,
  place: string,
  given: unknown,
): readonly [spec: TensorSpec, message: () => TensorMessage] {
  const operator = call.signature.name;
  if (given instanceof Returned)
    return note(call, place, given.spec, () => encodeTensor(given.spec));
  if (given instanceof Tensor) {
    call.tensors.set(place, given);
    const storage = { $case: "bufferId", value: given.buffer.bufferId } as const;
    return note(call, place, given.spec, () => encodeTensor(given.spec, storage));
  }
  if (!isArray(given)) refuse(parameter.name, `is ${shown(given)}, which is no tensor`, operator);
  if (parameter.output) {
    refuse(
      parameter.name,
      "is an array; an output must be a tensor of the context, for example context.empty(shape, dtype)",
      operator,
    );
  }
  const array = asArray(given);
  const spec = new TensorSpec(array.dtype, array.shape);
  return note(call, place, spec, () => encodeTensor(spec, { $case: "data", value: array.bytes() }));
}

function note(call: Call, place: string, spec: TensorSpec, message: () => TensorMessage) {
  call.specs.set(place, spec);
  return [spec, message] as const;
}

/** Spec of an input: of a tensor, or of an array as it is uploaded. */
export function specOf(value: Tensor | NdArray): TensorSpec {
  return value instanceof Tensor ? value.spec : new TensorSpec(value.dtype, value.shape);
}

/** Element type of an input. */
export function dtypeOfInput(value: Tensor | NdArray): DType {
  return value.dtype;
}
