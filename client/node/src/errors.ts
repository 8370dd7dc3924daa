/** Errors: one class per reason, each with its ACL code, and back from what travels. */

import { AclnnError, type ErrorDetails } from "./error.js";
import * as classes from "./generated/errors.js";

export { AclnnError } from "./error.js";
export * from "./generated/errors.js";

const BY_REASON = new Map<string, typeof AclnnError>(
  Object.values(classes).map((row) => [row.reason, row]),
);

/** An error as it travels, in a gRPC status or in an answer of Submit. */
export interface Told extends ErrorDetails {
  /** Machine-readable cause. */
  reason: string;
  /** Text for people. */
  message: string;
}

/**
 * Rebuilds the error that the server told.
 *
 * A reason that this version does not know gives an AclnnError with the code and text as sent.
 */
export function rebuilt(told: Told): AclnnError {
  return new (BY_REASON.get(told.reason) ?? AclnnError)(told.message, told);
}

/** The same error again, with the stack of whoever gets it now. */
export function again(error: AclnnError): AclnnError {
  const copy = rebuilt({ ...detailsOf(error), reason: error.reason, message: error.message });
  Error.captureStackTrace(copy, again);
  return copy;
}

function detailsOf(error: AclnnError): Required<ErrorDetails> {
  const { operator, parameter, code, requestId, retryAfterMs } = error;
  return { operator, parameter, code, requestId, retryAfterMs };
}
