/** What the results of a one-line call look like: shape and element type of each, before it is made. */

import { asScalar } from "./arguments.js";
import { anyDType, type DType, type DTypeLike, dtypeOf, named } from "./dtypes.js";
import { InvalidParameterError, UnsupportedError } from "./errors.js";
import { PROMOTED, PROMOTED_WITH_SCALAR } from "./generated/tables.js";
import { shown } from "./refusing.js";
import { type Attributes, Misfit, SHAPES } from "./shapes.js";
import type { Form, Rule } from "./signatures.js";
import { TensorSpec } from "./spec.js";

/**
 * Describes the results of a call, contiguous.
 *
 * @param form the one-line form.
 * @param inputs the tensors, in order.
 * @param attributes value of each attribute, as a number.
 * @throws InvalidParameterError 161002: the inputs do not fit each other.
 * @throws UnsupportedError 207000: a later version's server told a rule that is not known here.
 */
export function resultsOf(
  form: Form,
  inputs: readonly TensorSpec[],
  attributes: Attributes,
): TensorSpec[] {
  return Object.values(form.outputs).map(
    (rule) =>
      new TensorSpec(
        dtypeOfResult(form, rule, inputs, attributes),
        shapeOf(form, rule, inputs, attributes),
      ),
  );
}

function shapeOf(
  form: Form,
  rule: Rule,
  inputs: readonly TensorSpec[],
  attributes: Attributes,
): readonly number[] {
  const find = SHAPES[rule.shape];
  if (find === undefined) throw unknownRule(form, rule.shape);
  try {
    return find(inputs, attributes);
  } catch (error) {
    if (!(error instanceof Misfit)) throw error;
    const given = Object.entries(attributes).map(([name, value]) => `${name} = ${shown(value)}`);
    const shapes = inputs.map((spec) => `[${spec.shape}]`).join(", ");
    throw new InvalidParameterError(
      `${form.operator}: ${given.join(", ") || form.inputs.join(", ")} does not fit the shapes ${shapes} of ` +
        `${form.inputs.join(", ")}: ${error.message}`,
      { operator: form.operator },
    );
  }
}

function dtypeOfResult(
  form: Form,
  rule: Rule,
  inputs: readonly TensorSpec[],
  attributes: Attributes,
): DType {
  const given = attributes.dtype as DTypeLike | null | undefined;
  switch (rule.dtype) {
    case "first":
      return (inputs[0] as TensorSpec).dtype;
    case "given":
      return given === null || given === undefined
        ? (inputs[0] as TensorSpec).dtype
        : anyDType(given, "dtype", form.operator);
    case "index":
      return named("INT64");
    case "single":
      return named("FLOAT");
    case "bool":
      return named("BOOL");
    case "range": {
      const isFloat = Object.values(attributes).some(
        (value) => asScalar(value)?.dtype.kind === "float",
      );
      return named(isFloat ? "FLOAT" : "INT64");
    }
    case "promoted":
      return meeting(form, rule, inputs, attributes);
    case "floating": {
      const met = meeting(form, rule, inputs, attributes);
      return ["bool", "signed", "unsigned"].includes(met.kind) ? named("FLOAT") : met;
    }
    default:
      throw unknownRule(form, rule.dtype);
  }
}

/** The type in which the inputs meet. */
function meeting(
  form: Form,
  rule: Rule,
  inputs: readonly TensorSpec[],
  attributes: Attributes,
): DType {
  let met: DType | undefined = inputs[0]?.dtype;
  for (const { dtype } of inputs.slice(1)) met = met && promoted(PROMOTED, met, dtype);
  for (const name of rule.scalars) {
    const scalar = asScalar(attributes[name]);
    if (scalar !== undefined) met = met && promoted(PROMOTED_WITH_SCALAR, met, scalar.dtype);
  }
  if (met !== undefined) return met;
  const types = inputs.map((spec) => spec.dtype.name).join(", ");
  throw new InvalidParameterError(
    `${form.operator}: ${form.inputs.join(", ")} have the types ${types}, which meet in none`,
    { operator: form.operator },
  );
}

function promoted(
  table: readonly (readonly number[])[],
  left: DType,
  right: DType,
): DType | undefined {
  return dtypeOf(table[left.number - 1]?.[right.number - 1] ?? 0);
}

function unknownRule(form: Form, rule: string): UnsupportedError {
  return new UnsupportedError(
    `${form.operator}: its result follows the rule "${rule}", which this version does not know`,
    { operator: form.operator },
  );
}
