/**
 * Errors on gRPC's wire, back to the class of their reason.
 *
 * A status that did not come from this project (a refused connection, a passed deadline, a proxy's answer) is
 * translated to the class that fits, in words that a user of the client can act on.
 */

import { status as Code, type ServiceError } from "@grpc/grpc-js";
import {
  type AclnnError,
  CancelledError,
  InternalError,
  LimitExceededError,
  PermissionDeniedError,
  rebuilt,
  ServerUnavailable,
  UnauthenticatedError,
  UnsupportedError,
  VersionMismatchError,
  WaitTimeoutError,
} from "./errors.js";
import { ErrorInfo, RetryInfo } from "./generated/messages/google/rpc/error_details.js";
import { Status } from "./generated/messages/google/rpc/status.js";

const DOMAIN = "aclnn-serve";
const DETAILS_KEY = "grpc-status-details-bin";
const LONGEST_TEXT = 300;

/**
 * Rebuilds the error that a call ended with.
 *
 * @param error what grpc-js gave.
 * @param doing what the call was for, to follow "while".
 */
export function fromServiceError(error: ServiceError, doing: string): AclnnError {
  return ownError(error) ?? translated(error, doing);
}

/** The error that the server itself told; undefined where the status came from elsewhere. */
export function ownError(error: ServiceError): AclnnError | undefined {
  const encoded = error.metadata?.get(DETAILS_KEY)[0];
  return encoded instanceof Uint8Array ? decoded(encoded) : undefined;
}

/** The error in an encoded `google.rpc.Status`; undefined where it is not this project's. */
function decoded(encoded: Uint8Array): AclnnError | undefined {
  try {
    const status = Status.decode(encoded);
    const unpacked = (name: string): Uint8Array | undefined =>
      status.details.find((detail) => detail.typeUrl.endsWith(`/google.rpc.${name}`))?.value;
    const info = ErrorInfo.decode(unpacked("ErrorInfo") ?? new Uint8Array());
    if (info.domain !== DOMAIN) return undefined;
    const retry = RetryInfo.decode(unpacked("RetryInfo") ?? new Uint8Array()).retryDelay;
    const {
      operator = "",
      parameter = "",
      request_id: requestId = "",
      acl_code: code = "",
    } = info.metadata;
    return rebuilt({
      reason: info.reason,
      message: status.message,
      operator,
      parameter,
      requestId,
      code: /^\d{1,9}$/.test(code) ? Number(code) : 0,
      retryAfterMs: retry ? Number(retry.seconds) * 1000 + Math.floor(retry.nanos / 1e6) : 0,
    });
  } catch {
    return undefined;
  }
}

function translated({ code, details }: ServiceError, doing: string): AclnnError {
  const during = ` while ${doing}`;
  const cause = causeOf(details);
  switch (code) {
    case Code.UNAVAILABLE:
      return new ServerUnavailable(`no answer from the server${during}: ${cause}`);
    case Code.DEADLINE_EXCEEDED:
      return new WaitTimeoutError(`no answer within the time limit${during}`);
    case Code.CANCELLED:
      return new CancelledError(`the call was cancelled${during}`);
    case Code.UNAUTHENTICATED:
      return new UnauthenticatedError(`the server refused the credentials${during}: ${cause}`);
    case Code.PERMISSION_DENIED:
      return new PermissionDeniedError(`the server refused permission${during}: ${cause}`);
    case Code.RESOURCE_EXHAUSTED:
      return new LimitExceededError(`a limit was exceeded${during}: ${cause}`);
    case Code.UNIMPLEMENTED:
      return /method not found/i.test(details)
        ? new VersionMismatchError(
            `the server does not know the call${during}: another version, or another service`,
          )
        : new UnsupportedError(`the server does not offer the call${during}: ${cause}`);
    default:
      return new InternalError(
        `the call failed${during}: ${Code[code] ?? "no status"}: ${clipped(details)}`,
      );
  }
}

// What Node.js and gRPC say, most telling first, and what it means to a user.
const CAUSES: readonly (readonly [RegExp, string])[] = [
  [/ECONNREFUSED|connection refused/i, "connection refused; nothing listens there"],
  [/ENOENT/, "there is no such socket"],
  [/EACCES|EPERM/, "permission denied"],
  [/ENOTFOUND|EAI_|name resolution failed/i, "no such host name"],
  [/wrong version number|packet length too long/i, "the server does not speak TLS at this address"],
  [/altname/i, "the server's certificate is of another host"],
  [/certificate has expired/i, "the server's certificate has expired"],
  [/certificate is not yet valid/i, "the server's certificate is not valid yet"],
  [/certificate|self.signed/i, "the server's certificate is not trusted"],
  [/EHOSTUNREACH|ENETUNREACH/, "the network has no route to it"],
  [/ETIMEDOUT|timed? ?out/i, "no reply in time"],
  [/goaway|shutting down/i, "the server is shutting down"],
  [/too many pings|ENHANCE_YOUR_CALM/i, "the server closed the connection: too many pings"],
  [
    /received HTTP status code (\d{3})|HTTP status: (\d{3})/i,
    "a proxy or another service answered with HTTP status $1",
  ],
  [/larger than max \((\d+) vs\.? (\d+)\)/i, "a message of $1 bytes, and $2 are allowed"],
  [/concurrent rpc limit/i, "the server has as many calls in hand as it takes"],
  [/HTTP2_ERROR|protocol error/i, "what listens there does not speak gRPC"],
  [
    /Failed to connect/,
    "the connection broke before the server answered; it may speak TLS, or something else than gRPC",
  ],
  [
    /ECONNRESET|EPIPE|socket hang up|connection dropped|stream closed|closed with error/i,
    "the connection broke",
  ],
];

/** Says in plain words what a text means, where it is known. */
function causeOf(details: string): string {
  for (const [pattern, meaning] of CAUSES) {
    const match = pattern.exec(details);
    if (match !== null) return meaning.replace("$1", match[1] ?? "").replace("$2", match[2] ?? "");
  }
  return clipped(details) || "it gives no reason";
}

function clipped(text: string): string {
  return text.length <= LONGEST_TEXT ? text : `${text.slice(0, LONGEST_TEXT - 1)}…`;
}
