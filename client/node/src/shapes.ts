/** Shapes of the results of one-line forms, by the names of the rules in the catalogue. */

import { Scalar } from "./scalar.js";
import type { TensorSpec } from "./spec.js";

type Shape = readonly number[];
type Specs = readonly TensorSpec[];
/** Attributes of a call by name, as numbers. */
export type Attributes = Readonly<Record<string, unknown>>;

/** An argument does not fit the inputs; the operator's own checks say it better where they get to see it. */
export class Misfit extends Error {}

/** The rules; inputs that are lists of tensors stand among the others one by one. */
export const SHAPES: Readonly<Record<string, (inputs: Specs, attributes: Attributes) => Shape>> = {
  broadcast: (inputs) => broadcast(inputs.map((spec) => spec.shape)),
  reduced: (inputs, { reduction }) =>
    whole(reduction) === 0 ? broadcast(inputs.map((spec) => spec.shape)) : [],
  same: (inputs) => first(inputs),
  permuted: (inputs, { dims }) =>
    wholes(dims).map((dim) => first(inputs)[axis(dim, first(inputs).length)]!),
  expanded: (_, { size }) => wholes(size),
  sliced,
  padded,
  indexed,
  embedded: (inputs) => [...second(inputs), ...first(inputs).slice(1)],
  joined,
  stacked,
  range: counted,
  along,
  product,
  rows: (inputs) => {
    const kept = first(inputs).length - second(inputs).length;
    return first(inputs).map((size, dim) => (dim < kept ? size : 1));
  },
};

function first(inputs: Specs): Shape {
  const spec = inputs[0];
  if (spec === undefined) throw new Misfit("there is no tensor");
  return spec.shape;
}

function second(inputs: Specs): Shape {
  return inputs[1]?.shape ?? [];
}

/** The shape that all broadcast to. */
export function broadcast(shapes: readonly Shape[]): Shape {
  const rank = Math.max(0, ...shapes.map((shape) => shape.length));
  return Array.from({ length: rank }, (_, dim) => {
    const sizes = shapes
      .map((shape) => shape[dim - rank + shape.length] ?? 1)
      .filter((size) => size !== 1);
    if (sizes.some((size) => size !== sizes[0])) throw new Misfit("they do not broadcast together");
    return sizes[0] ?? 1;
  });
}

function axis(dim: number, rank: number): number {
  if (dim < -rank || dim >= rank)
    throw new Misfit(`dimension ${dim} is outside of a rank of ${rank}`);
  return dim < 0 ? dim + rank : dim;
}

function sliced(inputs: Specs, { dim, start, end, step }: Attributes): Shape {
  const shape = [...first(inputs)];
  const place = axis(whole(dim), shape.length);
  const size = shape[place]!;
  const pace = whole(step);
  if (pace === 0) throw new Misfit("the step is zero");
  const [low, high] = pace > 0 ? [0, size] : [-1, size - 1];
  const bound = (given: number): number =>
    Math.min(high, Math.max(low, given < 0 ? given + size : given));
  shape[place] = Math.max(0, Math.ceil((bound(whole(end)) - bound(whole(start))) / pace));
  return shape;
}

function padded(inputs: Specs, { pad }: Attributes): Shape {
  const shape = [...first(inputs)];
  const given = wholes(pad);
  if (given.length % 2 !== 0 || given.length > 2 * shape.length) {
    throw new Misfit(`pad has ${given.length} numbers; it takes two for each dimension, at most`);
  }
  for (let pair = 0; 2 * pair < given.length; pair++) {
    const dim = shape.length - 1 - pair;
    shape[dim] = Math.max(0, shape[dim]! + given[2 * pair]! + given[2 * pair + 1]!);
  }
  return shape;
}

function indexed(inputs: Specs, { dim }: Attributes): Shape {
  const own = first(inputs);
  if (own.length === 0) return [];
  const index = second(inputs).length > 0 ? second(inputs) : [1];
  const place = axis(whole(dim), own.length);
  return [...own.slice(0, place), ...index, ...own.slice(place + 1)];
}

function joined(inputs: Specs, { dim }: Attributes): Shape {
  // Those of the shape [0] do not count.
  const shapes = inputs.map((spec) => spec.shape).filter((shape) => String(shape) !== "0");
  const own = shapes[0];
  if (own === undefined) return [0];
  const place = axis(whole(dim), own.length);
  const size = shapes.reduce((sum, shape) => sum + (shape[place] ?? Number.NaN), 0);
  if (Number.isNaN(size)) throw new Misfit("the tensors have different numbers of dimensions");
  return [...own.slice(0, place), size, ...own.slice(place + 1)];
}

function stacked(inputs: Specs, { dim }: Attributes): Shape {
  const own = first(inputs);
  const place = axis(whole(dim), own.length + 1);
  return [...own.slice(0, place), inputs.length, ...own.slice(place)];
}

function counted(_: Specs, { start, end, step }: Attributes): Shape {
  const [low, high, pace] = [start, end, step].map(plain) as [number, number, number];
  const count = Math.ceil((high - low) / pace);
  if (!Number.isFinite(count)) throw new Misfit("there is no such range");
  return [Math.max(0, count)];
}

/** Without the dimensions that `dim` or `dims` names, all where none is, or with 1 for each where kept. */
function along(inputs: Specs, attributes: Attributes): Shape {
  const shape = first(inputs);
  const given = attributes.dim ?? attributes.dims ?? [];
  const keep = Object.entries(attributes).some(([name, value]) => /^keepdim/i.test(name) && value);
  const dims = typeof given === "object" ? wholes(given) : [whole(given)];
  const places = dims.length > 0 ? dims : shape.map((_, dim) => dim);
  const gone = new Set(places.map((dim) => axis(dim, shape.length || 1)));
  if (keep) return shape.map((size, dim) => (gone.has(dim) ? 1 : size));
  return shape.filter((_, dim) => !gone.has(dim));
}

/** That of the product of the last two inputs: matrices, vectors, or batches of matrices. */
function product(inputs: Specs): Shape {
  const [left, right] = inputs.slice(-2).map((spec) => spec.shape) as [Shape, Shape];
  const [before, batch] = [left.slice(0, -2), right.slice(0, -2)];
  const rank = Math.max(before.length, batch.length);
  const size = (shape: Shape, dim: number): number => shape[dim - rank + shape.length] ?? 1;
  const sizes = Array.from({ length: rank }, (_, dim) =>
    size(batch, dim) === 1
      ? size(before, dim)
      : size(before, dim) === 1
        ? size(batch, dim)
        : size(before, dim),
  );
  return [...sizes, ...left.slice(-2, -1), ...(right.length > 1 ? right.slice(-1) : [])];
}

/** A number that may be an aclScalar. */
function plain(value: unknown): number {
  return Number(value instanceof Scalar ? value.value : (value ?? Number.NaN));
}

function whole(value: unknown): number {
  const number =
    typeof value === "bigint" || typeof value === "number" ? Number(value) : Number.NaN;
  if (!Number.isInteger(number)) throw new Misfit(`${String(value)} is no whole number`);
  return number;
}

function wholes(values: unknown): number[] {
  if (typeof values !== "object" || values === null || !(Symbol.iterator in values)) {
    throw new Misfit(`${String(values)} is no list of whole numbers`);
  }
  return Array.from(values as Iterable<unknown>, whole);
}
