/** Numbers that callers give, checked before they are used. */

import { refuse, shown } from "./refusing.js";

/**
 * Reads a whole number that JavaScript holds exactly.
 *
 * @throws InvalidParameterError 161002: it is none, or below `lowest`.
 */
export function integer(value: unknown, parameter: string, lowest?: number): number {
  const number = typeof value === "bigint" ? Number(value) : value;
  if (
    typeof number !== "number" ||
    !Number.isSafeInteger(number) ||
    (lowest !== undefined && number < lowest)
  ) {
    const allowed = lowest === undefined ? "an integer" : `an integer of at least ${lowest}`;
    refuse(parameter, `is ${shown(value)}; it must be ${allowed}, and at most 2**53 - 1`);
  }
  return number + 0; // -0 becomes 0
}

/** Reads a sequence of whole numbers; errors as {@link integer}. */
export function integers(values: unknown, parameter: string, lowest?: number): number[] {
  if (!isIterable(values)) {
    refuse(parameter, `is ${shown(values)}; it must be a sequence of integers`);
  }
  return Array.from(values, (value, index) => integer(value, `${parameter}[${index}]`, lowest));
}

/** Reads dimensions; errors as {@link integer}. */
export function sizes(values: unknown, parameter: string): number[] {
  return integers(values, parameter, 0);
}

/** Whether it is a sequence; text is none. */
export function isIterable(value: unknown): value is Iterable<unknown> {
  return typeof value === "object" && value !== null && Symbol.iterator in value;
}
