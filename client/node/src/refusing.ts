/** How an argument is refused. */

import { InvalidParameterError } from "./generated/errors.js";

/** Refuses an argument, with 161002. */
export function refuse(parameter: string, problem: string, operator = ""): never {
  const text = operator ? `${operator}: ${parameter} ${problem}` : `${parameter} ${problem}`;
  throw new InvalidParameterError(text, { operator, parameter });
}

/** A value as an error's text shows it. */
export function shown(value: unknown): string {
  const text = written(value);
  return text.length <= 60 ? text : `${text.slice(0, 57)}...`;
}

function written(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(value);
  if (typeof value === "bigint") return `${value}n`;
  if (typeof value === "function") return `function ${value.name || "without a name"}`;
  if (Object.is(value, -0)) return "-0";
  if (Array.isArray(value)) return `[${value.map(written).join(", ")}]`;
  if (typeof value !== "object" || value === null) return String(value);
  const own = Object.hasOwn(Object.getPrototypeOf(value) ?? {}, "toString");
  return own ? String(value) : `a ${value.constructor?.name ?? "object"}`;
}
