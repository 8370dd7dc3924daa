import { CODES } from "./generated/tables.js";

/** What is known of a failure besides its text. */
export interface ErrorDetails {
  /** Operator at fault, with the aclnn prefix. */
  operator?: string;
  /** Parameter at fault. */
  parameter?: string;
  /** ACL code, where it is not that of the class. */
  code?: number;
  /** Id under which the server's log holds the full text. */
  requestId?: string;
  /** Milliseconds after which a repeat can succeed. */
  retryAfterMs?: number;
}

/** A call that failed, with the code that the vendor's C API returns for the cause. */
export class AclnnError extends Error {
  /** Machine-readable cause, the same on the wire. */
  static readonly reason: string = "UNKNOWN";
  /** ACL code of this class where none is named. */
  static readonly defaultCode: number = 561000;
  /** Number of the gRPC status code. */
  static readonly status: number = 2;

  /** Name of the code, for example `"ACLNN_ERR_PARAM_INVALID"`. */
  override readonly name: string;
  /** ACL code, for example 161002. */
  readonly code: number;
  /** Operator at fault, with the aclnn prefix; empty where no operator is involved. */
  readonly operator: string;
  /** Parameter at fault; empty where none is. */
  readonly parameter: string;
  /** Id under which the server's log holds the full text; empty where the message is complete. */
  readonly requestId: string;
  /** Milliseconds after which a repeat can succeed; 0 where none is known. */
  readonly retryAfterMs: number;

  constructor(message: string, details: ErrorDetails = {}) {
    super(message);
    this.code = details.code || new.target.defaultCode;
    this.name = CODES.get(this.code) ?? "UNKNOWN";
    this.operator = details.operator ?? "";
    this.parameter = details.parameter ?? "";
    this.requestId = details.requestId ?? "";
    this.retryAfterMs = details.retryAfterMs ?? 0;
    // The stack begins with the name, which was not known when it was taken.
    Error.captureStackTrace(this, new.target);
  }

  /** Machine-readable cause, for example `"INVALID_PARAMETER"`. */
  get reason(): string {
    return (this.constructor as typeof AclnnError).reason;
  }
}
