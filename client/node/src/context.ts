/** A context: one client's tenancy on one device, which owns its streams and buffers. */

import { endianness } from "node:os";
import { type ArrayLike, isArray, NdArray, type TypedArray } from "./arrays.js";
import { DeviceBuffer } from "./buffer.js";
import { Commands } from "./commands.js";
import { Connection, type ConnectionOptions } from "./connection.js";
import { type DTypeLike, dtype } from "./dtypes.js";
import {
  AclnnError,
  OperatorNotFoundError,
  ServerUnavailable,
  UnsupportedError,
} from "./errors.js";
import {
  CreateContextRequest,
  type CreateContextResponse,
  CreateStreamRequest,
  DestroyContextRequest,
  RenewContextRequest,
} from "./generated/messages/aclnn/v1/device_service.js";
import { Operators } from "./generated/operators.js";
import {
  askInfo,
  askOperator,
  askOperators,
  type Limits,
  numbers,
  type OperatorInfo,
  rowsOf,
  type ServerInfo,
  type Usage,
} from "./info.js";
import * as methods from "./methods.js";
import { integer, integers, sizes } from "./numbers.js";
import { CONTEXT, command, EVERYWHERE } from "./pending.js";
import { Plans } from "./plans.js";
import { refuse, shown } from "./refusing.js";
import { type Form, type Signature, signatureOf } from "./signatures.js";
import { contiguousStrides, formatName, TensorSpec } from "./spec.js";
import { Event, Stream, type SynchronizeOptions, synchronizing } from "./stream.js";
import { Submitter, type WaitOptions } from "./submit.js";
import { Tensor } from "./tensor.js";
import { upload } from "./transfer.js";
import { PROTOCOL_VERSION, VERSION } from "./version.js";

/** Longest wait for a server to take note of a goodbye, in milliseconds. */
const CLOSE_MS = 5_000;

/** How a server is reached, and what is asked for. */
export interface ConnectOptions extends ConnectionOptions, WaitOptions {
  /** Index of the device; default the one with the most free memory. */
  device?: number;
}

/** How a tensor lies over its storage, where not in C order over one of its own. */
export interface TensorOptions {
  /** Elements between neighbours along each dimension; default C order. */
  strides?: Iterable<number | bigint>;
  /** Elements from the start of the storage to the view's first. */
  offset?: number;
  /** ACL's name of the storage's format; default `"ND"`. */
  format?: string;
  /** Dimensions of the storage; default the shape, or where that does not hold the view, one that does. */
  storageShape?: Iterable<number | bigint>;
  /** Buffer that begins with the storage; default a new one, zeroed. */
  buffer?: DeviceBuffer;
}

/** One client's tenancy on one device; made by {@link connect}. */
export class Context {
  /** Index of the device that it is on. */
  readonly device: number;
  /** What it may hold. */
  readonly limits: Limits;
  /** Stream of the calls that name none. */
  readonly defaultStream: Stream;
  /** Operators in one line: arrays in, array out. */
  readonly ops: Operators;
  /** What its objects send their commands through. */
  readonly commands: Commands;
  /** Calls that were planned before. */
  readonly plans = new Plans();
  private readonly contextId: string;
  private readonly signatures = new Map<string, Promise<Signature>>();
  private forms: Promise<Map<string, Form>> | undefined;
  private ending: Promise<void> | undefined;

  /** Wraps what the server opened; see {@link connect}. */
  constructor(
    private readonly connection: Connection,
    opened: CreateContextResponse,
  ) {
    this.contextId = opened.contextId;
    this.device = opened.deviceIndex;
    this.limits = numbers(opened.limits!);
    const submitter = new Submitter((events) => connection.openSubmit(events), opened.contextId, {
      timeout: connection.timeout,
      explain: (error) => connection.named(error),
    });
    this.commands = new Commands(submitter, this.limits.messageBytes);
    this.defaultStream = new Stream(this, opened.streamId, true);
    this.ops = new Operators(this);
  }

  /** Address of its server. */
  get address(): string {
    return this.connection.address;
  }

  /** Whether it was closed, or its server is gone. */
  get closed(): boolean {
    return this.commands.submitter.closed;
  }

  // --- memory, tensors, events: these never wait ------------------------------------------------

  /**
   * Allocates device memory, zeroed; null for a size of 0.
   *
   * A failure (207001, no memory left) is told by the next call that waits.
   *
   * @throws InvalidParameterError 161002: the size is negative or no integer.
   */
  malloc(size: number): DeviceBuffer | null {
    const bytes = integer(size, "size", 0);
    return bytes > 0 ? new DeviceBuffer(this, bytes) : null;
  }

  /**
   * Describes a tensor, as aclCreateTensor does, and allocates its storage where it has none.
   *
   * @param shape dimensions of the view.
   * @param type element type, by ACL's name or NumPy's.
   * @throws InvalidParameterError 161002: a value cannot be; the text names it and what is allowed.
   */
  createTensor(
    shape: Iterable<number | bigint>,
    type: DTypeLike,
    options: TensorOptions = {},
  ): Tensor {
    const spec = described(shape, type, options);
    const buffer = options.buffer ?? new DeviceBuffer(this, Math.max(1, spec.storageBytes));
    this.checkBuffer(spec, buffer);
    return new Tensor(spec, buffer);
  }

  /** Allocates a tensor in C order, zeroed. Arguments as of {@link createTensor}. */
  empty(shape: Iterable<number | bigint>, type: DTypeLike): Tensor {
    return this.createTensor(shape, type);
  }

  /** Creates an event. */
  createEvent(): Event {
    return new Event(this);
  }

  // --- these wait -------------------------------------------------------------------------------

  /**
   * Uploads an array; resolves when it may be changed.
   *
   * @param array an NdArray, or a typed array, whose elements are in C order.
   * @param shape dimensions, for a typed array; default one dimension.
   * @throws InvalidParameterError 161002: it is no array, or does not fit the shape.
   */
  async tensor(
    array: ArrayLike,
    shape?: Iterable<number | bigint>,
    options: WaitOptions & { dtype?: DTypeLike } = {},
  ): Promise<Tensor> {
    if (!isArray(array)) refuse("array", `is ${shown(array)}, which is no typed array`);
    const given = whole(array, shape, options.dtype);
    const tensor = this.createTensor(given.shape, given.dtype);
    await upload(this.commands, tensor.buffer.bufferId, 0, given.bytes(), options);
    return tensor;
  }

  /**
   * Creates a stream.
   *
   * @throws LimitExceededError 207012: the context has as many as allowed.
   */
  async createStream(options?: WaitOptions): Promise<Stream> {
    const answer = await this.commands.ask(
      command("createStream", CreateStreamRequest.create()),
      options,
    );
    return new Stream(this, answer.streamId);
  }

  /** Waits until the work of every stream is done; as {@link Stream.synchronize}. */
  async synchronize({ timeout, signal }: SynchronizeOptions = {}): Promise<void> {
    await this.commands.ask(synchronizing("", timeout), {
      places: [EVERYWHERE],
      keepAt: CONTEXT,
      signal,
    });
  }

  /** Lists the operators that the server runs and whose names begin with `prefix`. */
  operators(prefix = "", options?: WaitOptions): Promise<OperatorInfo[]> {
    return askOperators(this.connection, prefix, options);
  }

  /**
   * Describes one operator, by its C name.
   *
   * @throws OperatorNotFoundError 100024: the server has no such operator.
   */
  operator(name: string, options?: WaitOptions): Promise<OperatorInfo> {
    return askOperator(this.connection, name, options);
  }

  /** Tells what the server is. */
  info(options?: WaitOptions): Promise<ServerInfo> {
    return askInfo(this.connection, options);
  }

  /** Tells what the context holds. */
  async usage(options?: WaitOptions): Promise<Usage> {
    const answer = await this.commands.ask(
      command("renewContext", RenewContextRequest.create()),
      options,
    );
    return numbers(answer.usage!);
  }

  // --- operators that only the server knows -----------------------------------------------------

  /** The signature of an operator that only the server knows. */
  findSignature(operator: string): Promise<Signature> {
    return remembered(this.signatures, operator, async () =>
      signatureOf(operator, rowsOf(await this.operator(operator))),
    );
  }

  /**
   * The one-line form of an operator that only the server knows, by its name in Python.
   *
   * @throws OperatorNotFoundError 100024: the server has none of that name.
   */
  async findForm(name: string): Promise<Form> {
    this.forms ??= this.askForms();
    const forms = await this.forms.catch((error) => {
      this.forms = undefined;
      throw error;
    });
    const found = forms.get(name);
    if (found !== undefined) return found;
    throw new OperatorNotFoundError(
      `there is no operator ${JSON.stringify(name)}, neither here nor on the server at ${this.address}`,
    );
  }

  private async askForms(): Promise<Map<string, Form>> {
    const forms = (await this.operators()).flatMap(({ oneLine }) => oneLine ?? []);
    return new Map(forms.map((form) => [form.name, form]));
  }

  // --- the end ----------------------------------------------------------------------------------

  /**
   * Destroys the context on the server, with all that it holds, and ends the connection.
   *
   * Work that is running ends first; queued work is dropped. Without effect where that is done.
   */
  close(): Promise<void> {
    this.ending ??= this.end();
    return this.ending;
  }

  /** Tells a failure that nobody has waited for, and closes the context. */
  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.tellFailures();
    } finally {
      await this.close();
    }
  }

  /** Throws what commands failed with that nobody has waited for, once all are answered. */
  private async tellFailures(): Promise<void> {
    const { submitter, failures } = this.commands;
    if (this.closed || (submitter.settled && failures.isEmpty)) return;
    try {
      await this.commands.ask(command("renewContext", RenewContextRequest.create()), {
        places: [EVERYWHERE],
      });
    } catch (error) {
      if (!(error instanceof ServerUnavailable)) throw error;
    }
  }

  private async end(): Promise<void> {
    try {
      if (!this.closed) {
        const request = DestroyContextRequest.create({ contextId: this.contextId });
        await this.connection.call(methods.DESTROY_CONTEXT, request, {
          doing: "closing a context",
          once: true,
          timeout: CLOSE_MS,
        });
      }
    } catch (error) {
      // The server may be gone, or have ended the context itself; the lease sees to the rest.
      if (!(error instanceof AclnnError)) throw error;
    } finally {
      this.commands.submitter.close();
      this.connection.close();
    }
  }

  private checkBuffer(spec: TensorSpec, buffer: DeviceBuffer): void {
    if (!(buffer instanceof DeviceBuffer))
      refuse("buffer", `is ${shown(buffer)}, which is no buffer`);
    if (buffer.context !== this) refuse("buffer", "belongs to another context");
    if (buffer.size < spec.storageBytes) {
      refuse("buffer", `has ${buffer.size} bytes; the storage needs ${spec.storageBytes}`);
    }
  }
}

/**
 * Connects to a server and opens a context on one of its devices.
 *
 * @param address `host:port`, `[IPv6]:port` or `unix:path`.
 * @throws ServerUnavailable: no answer from there.
 * @throws VersionMismatchError 500001: the server speaks another version of the protocol.
 * @throws UnauthenticatedError, PermissionDeniedError: the token is missing, wrong or not enough.
 * @throws HandleNotFoundError 107017: no such device.
 * @throws InvalidParameterError 161002: an argument cannot be.
 */
export async function connect(address: string, options: ConnectOptions = {}): Promise<Context> {
  if (endianness() !== "LE")
    throw new UnsupportedError("this machine is big-endian, and arrays travel little-endian");
  const { device } = options;
  const deviceIndex = device === undefined ? undefined : integer(device, "device", 0);
  const connection = new Connection(address, options);
  try {
    const request = CreateContextRequest.create({
      protocolVersion: PROTOCOL_VERSION,
      clientName: `aclnn-client-node/${VERSION}`,
      ...(deviceIndex !== undefined && { deviceIndex }),
    });
    const doing = { doing: "opening a context", once: true, signal: options.signal };
    return new Context(connection, await connection.call(methods.CREATE_CONTEXT, request, doing));
  } catch (error) {
    connection.close();
    throw error;
  }
}

function whole(array: ArrayLike, shape?: Iterable<number | bigint>, type?: DTypeLike): NdArray {
  if (!(array instanceof NdArray)) return new NdArray<TypedArray>(array, shape, type);
  if (shape === undefined && type === undefined) return array;
  return new NdArray(array.data, shape ?? array.shape, type ?? array.dtype);
}

/** Describes a tensor; arguments as of {@link Context.createTensor}. */
function described(
  shape: Iterable<number | bigint>,
  type: DTypeLike,
  options: TensorOptions,
): TensorSpec {
  const dims = sizes(shape, "shape");
  const strides =
    options.strides === undefined ? contiguousStrides(dims) : integers(options.strides, "strides");
  if (strides.length !== dims.length) {
    refuse("strides", `is [${strides}]; shape [${dims}] needs ${dims.length} of them`);
  }
  const offset = integer(options.offset ?? 0, "offset");
  const format = formatName(options.format ?? "ND");
  const view = new TensorSpec(dtype(type), dims, strides, offset, dims, format);
  const smallest = view.reach[1] <= view.elements ? dims : [view.reach[1]];
  const storage =
    options.storageShape === undefined ? smallest : sizes(options.storageShape, "storageShape");
  const spec = new TensorSpec(view.dtype, dims, strides, offset, storage, format);
  spec.check("tensor");
  return spec;
}

/** What was found before under a key; else what is found now, unless that fails. */
function remembered<V>(
  known: Map<string, Promise<V>>,
  key: string,
  find: () => Promise<V>,
): Promise<V> {
  let found = known.get(key);
  if (found === undefined) {
    found = find();
    known.set(key, found);
    found.catch(() => known.delete(key));
  }
  return found;
}
