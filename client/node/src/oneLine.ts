/** Operators in one line: arrays in, array out, one round trip. */

import { type ArrayLike, asArray, isArray, NdArray } from "./arrays.js";
import type { Context } from "./context.js";
import { again } from "./errors.js";
import { Executor } from "./executor.js";
import {
  ExecuteRequest,
  GetWorkspaceSizeRequest,
} from "./generated/messages/aclnn/v1/operator_service.js";
import { isIterable } from "./numbers.js";
import { type AnswerOf, CONTEXT, command, Pending } from "./pending.js";
import { refuse, shown } from "./refusing.js";
import { resultsOf } from "./results.js";
import { type Form, knownForm, knownSignature, type Signature } from "./signatures.js";
import type { TensorSpec } from "./spec.js";
import type { Stream } from "./stream.js";
import type { WaitOptions } from "./submit.js";
import { Tensor } from "./tensor.js";
import { place } from "./twoPhase.js";
import { encode, Returned, specOf } from "./values.js";
import { planParts } from "./wire.js";

/** An input of an operator. */
export type Input = Tensor | ArrayLike;
/** A list of inputs. */
export type InputList = readonly Input[];
/** What every operator takes besides its own attributes. */
export interface OneLineOptions extends WaitOptions {
  /** Default the context's default stream. */
  stream?: Stream;
}

type Item<I> = I extends readonly (infer E)[] ? E : I;
type One<I> = [Extract<Item<I>, Tensor>] extends [never] ? NdArray : Tensor;
/** What a call gives: an array, or a tensor where an input is one; several where the operator has several. */
export type Result<I, N extends number = 1> = N extends 1
  ? One<I>
  : N extends 2
    ? [One<I>, One<I>]
    : One<I>[];

/** A call whose arguments are sorted. */
interface Bound {
  readonly form: Form;
  readonly signature: Signature;
  /** By input; a list for a list. */
  readonly inputs: readonly (Input | InputList)[];
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly stream: Stream;
  readonly options: WaitOptions;
}

/** What the functions of operators in one line share. */
export class OneLineForms {
  constructor(protected readonly context: Context) {}

  /**
   * An operator in one line, by its name in Python; also one that only the server knows.
   *
   * @param name for example `"smooth_l1_loss"`.
   * @param inputs tensors or arrays, in order.
   * @param options attributes by name, stream, signal.
   * @throws OperatorNotFoundError 100024: neither this package nor the server has one of that name.
   */
  call(
    name: string,
    inputs: readonly (Input | InputList)[],
    options: OneLineOptions & Record<string, unknown> = {},
  ): Promise<NdArray | Tensor | (NdArray | Tensor)[]> {
    return this.run(name, inputs, options);
  }

  protected async run<R>(
    name: string,
    inputs: readonly (Input | InputList)[],
    options: OneLineOptions,
  ): Promise<R> {
    const form = knownForm(name) ?? (await this.context.findForm(name));
    const signature =
      knownSignature(form.operator) ?? (await this.context.findSignature(form.operator));
    const results = await this.dispatch(this.bind(form, signature, inputs, options));
    return (results.length === 1 ? results[0] : results) as R;
  }

  /** Sorts the arguments of a call by the form's names; attributes as numbers. */
  private bind(
    form: Form,
    signature: Signature,
    inputs: Bound["inputs"],
    { stream, signal, ...given }: OneLineOptions,
  ): Bound {
    const { operator } = form;
    if (inputs.length !== form.inputs.length) {
      refuse("inputs", `are ${inputs.length}; it takes ${form.inputs.join(", ")}`, operator);
    }
    const stranger = Object.keys(given).find((key) => !Object.hasOwn(form.attributes, key));
    if (stranger !== undefined) {
      const names = Object.keys(form.attributes).join(", ") || "none";
      refuse(stranger, `is no attribute; those are ${names}`, operator);
    }
    form.inputs.forEach((input, position) => {
      this.checkInput(operator, input, inputs[position]);
    });
    const chosen: Record<string, unknown> = {};
    for (const [key, value] of Object.entries({ ...form.attributes, ...given })) {
      chosen[key] = numberOf(form, key, value);
    }
    const own = stream ?? this.context.defaultStream;
    if (own.context !== this.context) refuse("stream", "belongs to another context", operator);
    return { form, signature, inputs, attributes: chosen, stream: own, options: { signal } };
  }

  private checkInput(operator: string, name: string, value: unknown): void {
    const items = isIterable(value) && !isArray(value) ? [...value] : [value];
    for (const item of items) {
      if (item instanceof Tensor) {
        if (item.context !== this.context) refuse(name, "belongs to another context", operator);
      } else if (!isArray(item))
        refuse(name, `is ${shown(item)}, which is no tensor and no array`, operator);
    }
  }

  // --- the ways that the data can take ------------------------------------------------------------

  private dispatch(bound: Bound): Promise<(NdArray | Tensor)[]> {
    const flat = bound.inputs.flatMap((input) => (isList(input) ? [...input] : [input]));
    const specs = flat.map((item) => specOf(item instanceof Tensor ? item : asArray(item)));
    const results = resultsOf(bound.form, specs, bound.attributes);
    if (flat.some((item) => item instanceof Tensor)) return this.resident(bound, results);
    const traffic = [...specs, ...results].reduce((bytes, spec) => bytes + spec.storageBytes, 0);
    return traffic <= this.context.commands.inlineBytes
      ? this.inline(bound, results)
      : this.large(bound, results);
  }

  /** Both phases in one request, and the results in its answer. */
  private async inline(bound: Bound, results: readonly TensorSpec[]): Promise<NdArray[]> {
    const { commands } = this.context;
    const { operator } = bound.form;
    const outputs = results.map((spec) => new Returned(spec));
    const call = encode(bound.signature, inOrder(bound, bound.inputs, outputs));
    const executorId = commands.nextId();
    const plan = new Pending(
      planParts(GetWorkspaceSizeRequest.create({ executorId, operator }), call.messages),
    );
    const request = ExecuteRequest.create({ streamId: bound.stream.streamId, executorId });
    const answerBytes = results.reduce((bytes, spec) => bytes + spec.storageBytes, 0);
    const run: Pending<AnswerOf<"execute">> = command("execute", request, { answerBytes });
    commands.submit([plan, run]);
    await commands.submitter.wait(run, bound.options);
    if (run.error !== undefined) {
      throw again(commands.failures.take(CONTEXT) ?? plan.error ?? run.error);
    }
    return run.answer.outputs.map(({ tensor }, index) => {
      const { shape, dtype } = results[index]!;
      const { storage } = tensor!;
      const bytes = storage?.$case === "data" ? storage.value : new Uint8Array();
      return NdArray.ofBytes(new Uint8Array(bytes), shape, dtype); // the answer is larger than what it holds
    });
  }

  /** Upload, both phases and download in one flight: for large arrays. */
  private async large(bound: Bound, results: readonly TensorSpec[]): Promise<NdArray[]> {
    const uploaded: Tensor[] = [];
    const send = async (item: Input): Promise<Tensor> => {
      const tensor = await this.context.tensor(item as ArrayLike, undefined, bound.options);
      uploaded.push(tensor);
      return tensor;
    };
    const outputs = await this.execute(bound, await each(bound.inputs, send), results, false);
    for (const tensor of uploaded) tensor.free();
    try {
      return await Promise.all(outputs.map((output) => output.array(bound.options)));
    } finally {
      for (const output of outputs) output.free();
    }
  }

  /** Both phases on tensors that stay on the device; a small array goes with the call. */
  private async resident(bound: Bound, results: readonly TensorSpec[]): Promise<Tensor[]> {
    const inputs = await each(bound.inputs, (item) => place(this.context, item, bound.options));
    return this.execute(bound, inputs, results, true);
  }

  private async execute(
    bound: Bound,
    inputs: Bound["inputs"],
    results: readonly TensorSpec[],
    wait: boolean,
  ): Promise<Tensor[]> {
    const outputs = results.map((spec) => this.context.empty(spec.shape, spec.dtype));
    const call = encode(bound.signature, inOrder(bound, inputs, outputs));
    const executor = new Executor(this.context, call, false);
    await executor.plan(call, { wait, ...bound.options });
    await executor.execute(bound.stream);
    return outputs;
  }
}

function isList(input: Input | InputList): input is InputList {
  return Array.isArray(input);
}

/** Does the same with every input, one after the other. */
async function each(
  inputs: Bound["inputs"],
  act: (item: Input) => Promise<Input>,
): Promise<(Input | InputList)[]> {
  const done: (Input | InputList)[] = [];
  for (const input of inputs) {
    if (!isList(input)) {
      done.push(await act(input));
      continue;
    }
    const items: Input[] = [];
    for (const item of input) items.push(await act(item));
    done.push(items);
  }
  return done;
}

/** The arguments in the order of the prototype; an element type that is null is that of the first output. */
function inOrder(
  bound: Bound,
  inputs: Bound["inputs"],
  outputs: readonly (Tensor | Returned)[],
): unknown[] {
  const values = new Map<string, unknown>(Object.entries(bound.attributes));
  for (const [position, name] of bound.form.inputs.entries()) values.set(name, inputs[position]);
  for (const [position, name] of Object.keys(bound.form.outputs).entries())
    values.set(name, outputs[position]);
  return bound.signature.parameters.map(({ name, kind }) => {
    const value = values.get(name) ?? null;
    return kind === "dataType" && value === null ? outputs[0]?.spec.dtype : value;
  });
}

/** Translates the name of a choice to its number; anything else is passed through. */
function numberOf(form: Form, attribute: string, value: unknown): unknown {
  const choices = Object.hasOwn(form.choices, attribute) ? form.choices[attribute] : undefined;
  if (choices === undefined || typeof value !== "string") return value;
  if (!Object.hasOwn(choices, value)) {
    const names = Object.keys(choices).map((name) => JSON.stringify(name));
    refuse(attribute, `is ${shown(value)}; allowed are ${names.join(", ")}`, form.operator);
  }
  return choices[value];
}
