/** Signatures of operators: the parameters of phase one, and the one-line forms. */

import { InvalidParameterError } from "./errors.js";
import { FORMS, SIGNATURES } from "./generated/catalogue.js";
import { KIND_OF_C_TYPE, type Kind } from "./kinds.js";

/**
 * A parameter as the generated catalogue has it: C type, name, whether written, whether it may be null, whether
 * only the run tells its shape.
 */
export type ParameterRow = readonly [
  cType: string,
  name: string,
  output: boolean,
  optional: boolean,
  shapedByData?: boolean,
];

/** One parameter of phase one. */
export interface Parameter {
  /** Name in the C prototype. */
  readonly name: string;
  /** C type, for example `"const aclTensor*"`. */
  readonly cType: string;
  /** What an argument for it is. */
  readonly kind: Kind;
  /** Whether the operator writes to it. */
  readonly output: boolean;
  /** Whether null is allowed. */
  readonly optional: boolean;
  /** Whether it is an output that is given as large as it may become: the run tells how large it is. */
  readonly shapedByData: boolean;
}

/** An operator's name and the parameters of its phase one. */
export interface Signature {
  /** Name in C, with the aclnn prefix. */
  readonly name: string;
  /** In order, without the trailing workspaceSize and executor. */
  readonly parameters: readonly Parameter[];
}

/** How a result of a one-line form follows from its inputs. */
export interface Rule {
  readonly shape: string;
  readonly dtype: string;
  readonly scalars: readonly string[];
}

/** How an operator looks in one line. */
export interface Form {
  /** Name in Python, for example `"smooth_l1_loss"`. */
  readonly name: string;
  /** C name, with the aclnn prefix. */
  readonly operator: string;
  /** Tensors to give, in order. */
  readonly inputs: readonly string[];
  /** Further parameters in order, each with its default. */
  readonly attributes: Readonly<Record<string, unknown>>;
  /** Results in order. */
  readonly outputs: Readonly<Record<string, Rule>>;
  /** Names that an attribute may be given by, and the numbers that they stand for. */
  readonly choices: Readonly<Record<string, Readonly<Record<string, number>>>>;
}

/**
 * Makes a signature.
 *
 * @throws InvalidParameterError 161002: a parameter has a C type that this version does not know.
 */
export function signatureOf(name: string, rows: readonly ParameterRow[]): Signature {
  const parameters = rows.map(([cType, parameter, output, optional, shapedByData = false]) => {
    const kind = KIND_OF_C_TYPE.get(cType.replace(/^const /, ""));
    if (kind === undefined) {
      throw new InvalidParameterError(
        `${name}: ${parameter} is a ${cType}, which this version cannot send`,
        {
          operator: name,
          parameter,
        },
      );
    }
    return { name: parameter, cType, kind, output, optional, shapedByData };
  });
  return { name, parameters };
}

const KNOWN = new Map<string, Signature>();

/** The signature of an operator of this package; undefined for any other. */
export function knownSignature(operator: string): Signature | undefined {
  let found = KNOWN.get(operator);
  if (found === undefined && Object.hasOwn(SIGNATURES, operator)) {
    found = signatureOf(operator, SIGNATURES[operator]!);
    KNOWN.set(operator, found);
  }
  return found;
}

/** The one-line form of that name in Python; undefined where this package has none. */
export function knownForm(name: string): Form | undefined {
  return Object.hasOwn(FORMS, name) ? FORMS[name] : undefined;
}
