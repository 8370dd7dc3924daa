/** A connection to one server: its address, its channel, its calls, and errors in plain words. */

import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import {
  type ChannelCredentials,
  type ChannelOptions,
  Client,
  credentials,
  Metadata,
  type ServiceError,
  status,
} from "@grpc/grpc-js";
import { isLocal, targetOf } from "./address.js";
import { AclnnError, again, ServerUnavailable } from "./errors.js";
import { refuse, shown } from "./refusing.js";
import { type CallEvents, EndedByServer, type SubmitCall } from "./requests.js";
import { fromServiceError, ownError } from "./status.js";

/** Longest wait for a server that does not answer at all, where no time limit is given, in milliseconds. */
const CONNECT_MS = 5_000;
/** Milliseconds before each repeat of a call whose connection broke. */
const REPEAT_PAUSES = [0, 100, 400];

/** Metadata of a call that makes its repeat safe. */
const REQUEST_ID = "aclnn-request-id";
/** Bytes that may come in before the client has taken them. */
const WINDOW_BYTES = 8 * 2 ** 20;

/** What to trust and how to prove who one is: files in PEM form, or their contents. */
export interface Tls {
  /** Certificates that the server's is to be signed by; without, those that Node.js trusts. */
  rootCertificates?: string | Uint8Array;
  /** The client's own certificate, where the server asks for one (mutual TLS). */
  certificate?: string | Uint8Array;
  /** Private key of `certificate`. */
  key?: string | Uint8Array;
  /** Name that the server's certificate is to have, where the address has another one. */
  serverName?: string;
}

/** How a server is reached. */
export interface ConnectionOptions {
  /** Bearer token, where the server asks for one. */
  token?: string;
  /** False or left out: plain text. True: TLS with the certificates that Node.js trusts. */
  tls?: boolean | Tls;
  /** Milliseconds that any wait for the server may take; without, only connecting has a limit, 5 seconds. */
  timeout?: number;
}

/** A method of the schema: its path, and how its messages are written and read. */
export interface Method<Request, Response> {
  readonly path: string;
  readonly request: { encode(message: Request): { finish(): Uint8Array } };
  readonly response: { decode(bytes: Uint8Array): Response };
}

/** How a call is made. */
export interface CallOptions {
  /** What for, to follow "while" in an error's text. */
  doing: string;
  /** Milliseconds; default the connection's, and without one 5 seconds. */
  timeout?: number;
  /** Whether to try again where the connection broke. */
  repeatable?: boolean;
  /** The same, for a call that must not be made twice: the server recognises the repeat. */
  once?: boolean;
  /** Ends the call, with the signal's reason. */
  signal?: AbortSignal | undefined;
}

const asBuffer = (bytes: Uint8Array): Buffer =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);

/** One channel to one server. */
export class Connection {
  /** Milliseconds that any wait may take. */
  readonly timeout: number | undefined;
  private client: Client;
  private readonly open: () => Client;
  private readonly metadata: Metadata;

  /**
   * Prepares the channel; nothing is sent yet.
   *
   * @throws InvalidParameterError 161002: the address, the token, a TLS file or the time limit cannot be.
   */
  constructor(
    /** As the caller gave it. */
    readonly address: string,
    { token, tls, timeout }: ConnectionOptions = {},
    /** Longest wait for a connection of Submit, in milliseconds. */
    private readonly readyMs = CONNECT_MS,
  ) {
    const target = targetOf(address);
    this.timeout = checkTimeout(timeout);
    this.metadata = metadataOf(token);
    if (token !== undefined && tls === undefined && !isLocal(target)) {
      refuse(
        "token",
        `would be sent to ${address} without TLS, for whoever is on the way to read: give tls, or ` +
          "tls: false to send it all the same",
      );
    }
    const secure = credentialsOf(tls);
    const serverName = typeof tls === "object" ? tls.serverName : undefined;
    const named = serverName === undefined ? {} : { "grpc.ssl_target_name_override": serverName };
    this.open = () => new Client(target, secure, { ...channelOptions(target), ...named });
    this.client = this.open();
  }

  /**
   * Makes one unary call.
   *
   * @throws ServerUnavailable: no answer; the text names the address.
   * @throws AclnnError: the server's error.
   */
  async call<Request, Response>(
    method: Method<Request, Response>,
    request: Request,
    options: CallOptions,
  ): Promise<Response> {
    const pauses = options.repeatable || options.once ? [...REPEAT_PAUSES] : [];
    const metadata = this.metadata.clone();
    if (options.once) metadata.set(REQUEST_ID, randomBytes(16).toString("hex"));
    for (;;) {
      try {
        return await this.callOnce(method, request, metadata, options);
      } catch (error) {
        const pause = pauses.shift();
        const broke =
          error instanceof ServerUnavailable && error.message.includes("connection broke");
        if (!broke || pause === undefined) throw error instanceof AclnnError ? again(error) : error;
        await new Promise((resolve) => setTimeout(resolve, pause));
      }
    }
  }

  private callOnce<Request, Response>(
    method: Method<Request, Response>,
    request: Request,
    metadata: Metadata,
    { doing, timeout, signal }: CallOptions,
  ): Promise<Response> {
    const limit = timeout ?? this.timeout ?? CONNECT_MS;
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      const call = this.client.makeUnaryRequest(
        method.path,
        (message: Request) => asBuffer(method.request.encode(message).finish()),
        (bytes: Buffer) => method.response.decode(bytes),
        request,
        metadata,
        { deadline: Date.now() + limit },
        (error, response) => {
          signal?.removeEventListener("abort", cancel);
          if (signal?.aborted) reject(signal.reason);
          else if (error !== null) reject(this.explained(error, doing, limit));
          else resolve(response as Response);
        },
      );
      const cancel = (): void => call.cancel();
      signal?.addEventListener("abort", cancel);
    });
  }

  private explained(error: ServiceError, doing: string, limit: number): AclnnError {
    const told = ownError(error);
    if (told === undefined && error.code === status.DEADLINE_EXCEEDED) {
      return this.named(
        new ServerUnavailable(`no answer within ${limit / 1000} seconds while ${doing}`),
      );
    }
    return this.named(told ?? fromServiceError(error, doing));
  }

  /** The error, with the address where the server did not answer. */
  named(error: AclnnError): AclnnError {
    if (!(error instanceof ServerUnavailable) || error.message.includes(this.address)) return error;
    const { parameter, code, requestId, retryAfterMs } = error;
    const details = { parameter, code, requestId, retryAfterMs };
    return new ServerUnavailable(`${this.address}: ${error.message}`, details);
  }

  /** Opens Submit, without waiting; a failure to connect is told as the call's end. */
  openSubmit(events: CallEvents): SubmitCall {
    const call = this.client.makeBidiStreamRequest<Uint8Array, Uint8Array>(
      "/aclnn.v1.DeviceService/Submit",
      asBuffer,
      (bytes) => bytes,
      this.metadata,
    );
    let ended = false;
    const end = (error: AclnnError): void => {
      if (!ended) events.ended(error);
      ended = true;
    };
    call.on("data", (message: Uint8Array) => events.response(message));
    call.on("drain", () => events.drained());
    call.on("error", (error: ServiceError) => end(fromServiceError(error, "running commands")));
    call.on("end", () => setImmediate(end, new EndedByServer("the server ended the call")));
    this.client.waitForReady(Date.now() + this.readyMs, (error) => {
      if (error === undefined || ended) return;
      // gRPC waits for whoever took the connection and says nothing, for as long as it stays that way.
      this.client.close();
      this.client = this.open();
      end(new ServerUnavailable(`no connection within ${this.readyMs / 1000} seconds`));
    });
    return { send: (message) => call.write(message), cancel: () => call.cancel() };
  }

  /** Closes the channel; calls that are under way end. */
  close(): void {
    this.client.close();
  }
}

// --- what the caller gives ------------------------------------------------------------------------

function channelOptions(target: string): ChannelOptions {
  return {
    "grpc.max_receive_message_length": -1, // the server's own limit holds
    "grpc.max_send_message_length": -1,
    // Several chunks of a download on their way at once, in place of HTTP/2's first 64 KiB.
    "grpc-node.flow_control_window": WINDOW_BYTES,
    // A connection of its own: no waiting behind another context's uploads.
    "grpc.use_local_subchannel_pool": 1,
    // A connection that broke is tried again at once: the context waits for no longer than its lease.
    "grpc.initial_reconnect_backoff_ms": 100,
    "grpc.max_reconnect_backoff_ms": 1_000,
    // Finds out that the other machine is gone when nothing tells.
    "grpc.keepalive_time_ms": 20_000,
    "grpc.keepalive_timeout_ms": 10_000,
    // What may be sent again is known here, and what was sent is kept here.
    "grpc.enable_retries": 0,
    ...(isLocal(target) && { "grpc.enable_http_proxy": 0 }),
  };
}

function credentialsOf(tls: boolean | Tls | undefined): ChannelCredentials {
  if (tls === undefined || tls === false) return credentials.createInsecure();
  const { rootCertificates, certificate, key } = tls === true ? ({} as Tls) : tls;
  if ((certificate === undefined) !== (key === undefined)) {
    refuse("tls", "has only one of certificate and key; a client proves itself with both");
  }
  const roots = contents(rootCertificates, "tls.rootCertificates");
  const pair = [contents(key, "tls.key"), contents(certificate, "tls.certificate")] as const;
  try {
    return credentials.createSsl(roots, ...pair);
  } catch (error) {
    refuse(
      "tls",
      `has no certificates or key in PEM form, or no pair: ${(error as Error).message}`,
    );
  }
}

function contents(given: string | Uint8Array | undefined, parameter: string): Buffer | null {
  if (given === undefined) return null;
  if (typeof given !== "string") return asBuffer(given);
  try {
    return readFileSync(given);
  } catch (error) {
    refuse(
      parameter,
      `is ${shown(given)}, which cannot be read: ${(error as NodeJS.ErrnoException).code}`,
    );
  }
}

function metadataOf(token: string | undefined): Metadata {
  const metadata = new Metadata();
  if (token === undefined) return metadata;
  if (!/^[\x21-\x7e]+$/.test(token)) {
    refuse("token", "is empty or has other than printable ASCII characters without spaces");
  }
  metadata.set("authorization", `Bearer ${token}`);
  return metadata;
}

function checkTimeout(timeout: number | undefined): number | undefined {
  if (timeout !== undefined && !(timeout > 0)) {
    refuse("timeout", `is ${shown(timeout)}; it must be a number of milliseconds above 0`);
  }
  return timeout;
}
