/** Does the conformance kit's steps with this client: see tests/conformance/README.md. */

import { closeSync, openSync, readSync, writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import {
  AclnnError,
  type Context,
  connect,
  type DTypeName,
  dtype,
  Event,
  Executor,
  execute,
  NdArray,
  ops,
  Scalar,
  Stream,
  Tensor,
} from "../src/index.js";

/** A step, an argument in it, or where bytes are. */
// biome-ignore lint/suspicious/noExplicitAny: whatever the kit sends
type Json = any;
type PhaseOne = (...given: unknown[]) => Promise<[number, Executor]>;

let context: Context | undefined;
const named = new Map<string, unknown>();

function open(): Context {
  if (context === undefined) throw new Error("there is no context");
  return context;
}

function get<T>(kind: abstract new (...given: never[]) => T, name: string): T {
  const found = named.get(name);
  if (!(found instanceof kind)) throw new Error(`${name} is no ${kind.name}`);
  return found;
}

function bytesOf(data: Json): Uint8Array {
  const bytes = new Uint8Array(data.bytes);
  const file = openSync(data.file, "r");
  readSync(file, bytes, 0, bytes.length, data.offset);
  closeSync(file);
  return bytes;
}

/** A value as Python writes it. */
function scalar(text: string, type: DTypeName): Scalar {
  const { kind } = dtype(type);
  if (kind === "bool") return new Scalar(text === "True", type);
  if (kind === "signed" || kind === "unsigned") return new Scalar(BigInt(text), type);
  if (kind === "complex") {
    const parts = /^\(?([-+.\deinfa]*?)([-+]?[.\deinfa]+)j\)?$/.exec(text);
    return new Scalar([Number(parts?.[1] || 0), Number(parts?.[2])], type);
  }
  return new Scalar(Number(text.replace("inf", "Infinity")), type);
}

function value(argument: Json): unknown {
  if ("tensor" in argument) return get(Tensor, argument.tensor);
  if ("tensors" in argument) return argument.tensors.map((name: string) => get(Tensor, name));
  if ("scalar" in argument) return scalar(argument.scalar, argument.dtype);
  if ("ints" in argument) return argument.ints.map(BigInt);
  if ("int" in argument) return BigInt(argument.int);
  return "null" in argument ? null : Object.values(argument)[0];
}

/** What is done for each verb of the kit. */
const VERBS: Readonly<Record<string, (step: Json) => unknown>> = {
  hello: () => ({ client: "aclnn-client-node" }),
  connect: async ({ address }) => {
    context = await connect(address);
  },
  close: async () => {
    named.clear();
    const closing = context;
    context = undefined;
    await closing?.close();
  },
  stream: async ({ as }) => {
    named.set(as, await open().createStream());
  },
  event: ({ as }) => {
    named.set(as, open().createEvent());
  },
  buffer: ({ as, bytes }) => {
    named.set(as, open().malloc(bytes));
  },
  tensor: async ({
    as,
    dtype: type,
    shape,
    strides,
    offset,
    storage_shape: storageShape,
    data,
  }) => {
    const layout = Object.entries({ strides, offset, storageShape }).filter(
      ([, given]) => given !== undefined,
    );
    const tensor = open().createTensor(shape, type, Object.fromEntries(layout));
    if (data !== undefined) await tensor.buffer.write(bytesOf(data));
    named.set(as, tensor);
  },
  read: async ({ tensor, into }) => {
    const array = await get(Tensor, tensor).array();
    writeFileSync(into, array instanceof NdArray ? array.bytes() : new Uint8Array());
  },
  free: ({ tensor }) => get(Tensor, tensor).free(),
  plan: async ({ as, operator, arguments: given, repeatable = false }) => {
    const phaseOne = (ops as unknown as Record<string, PhaseOne>)[`${operator}GetWorkspaceSize`];
    const values = given.map(value);
    const options = { repeatable, context: open() };
    const [size, executor] =
      phaseOne === undefined
        ? await open()
            .operator(operator)
            .then(() => unknown(operator))
        : await phaseOne(...values, options);
    named.set(as, executor);
    return { workspace_bytes: size };
  },
  execute: async ({ executor: name, stream, bindings = {} }) => {
    const executor = get(Executor, name);
    const size = executor.workspaceSize;
    const bound = Object.entries<string>(bindings).map(([key, tensor]) => [
      key,
      get(Tensor, tensor),
    ]);
    const on = stream === undefined ? undefined : get(Stream, stream);
    await execute(executor.operator, open().malloc(size), size, executor, on, {
      bindings: Object.fromEntries(bound),
    });
  },
  destroy_executor: ({ executor }) => get(Executor, executor).destroy(),
  synchronize: async ({ stream, timeout_ms: timeout }) => {
    const on = stream === undefined ? open() : get(Stream, stream);
    await on.synchronize(timeout === undefined ? {} : { timeout });
  },
  record: ({ event, stream }) => get(Event, event).record(get(Stream, stream)),
  wait_event: ({ event, stream }) => get(Stream, stream).wait(get(Event, event)),
  query_event: async ({ event }) => ({ complete: await get(Event, event).query() }),
  elapsed: async ({ start, end }) => ({
    milliseconds: await get(Event, start).elapsedTime(get(Event, end)),
  }),
};

function unknown(operator: string): never {
  throw new Error(`the server knows ${operator}, and this client does not`);
}

async function answer(step: Json): Promise<object> {
  const act = VERBS[step.do];
  if (act === undefined) throw new Error(`${step.do} is no verb`);
  try {
    return { ok: (await act(step)) ?? {} };
  } catch (error) {
    if (!(error instanceof AclnnError)) throw error;
    const { code, name, operator, parameter, reason, message } = error;
    return { error: { code, name, operator, parameter, reason, message } };
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await answer(JSON.parse(line))));
}
await VERBS.close?.({});
