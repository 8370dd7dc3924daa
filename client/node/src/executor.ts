/** Executors: planned calls. */

import { DeviceBuffer } from "./buffer.js";
import type { Context } from "./context.js";
import { type AclnnError, again } from "./errors.js";
import { endWith, forget } from "./finalizing.js";
import {
  Binding,
  ExecuteRequest,
  GetWorkspaceSizeRequest,
  Workspace,
} from "./generated/messages/aclnn/v1/operator_service.js";
import { integer } from "./numbers.js";
import { type AnswerOf, Pending } from "./pending.js";
import { refuse, shown } from "./refusing.js";
import type { Signature } from "./signatures.js";
import type { Stream } from "./stream.js";
import type { WaitOptions } from "./submit.js";
import { Tensor } from "./tensor.js";
import { type Call, slot } from "./values.js";
import { planParts } from "./wire.js";

/** Tensors by the prototype's names. */
export type Bindings = Readonly<Record<string, Tensor | readonly Tensor[]>>;

/** Settings of phase two, in its other form. */
export interface RunOptions {
  /** Default the context's default stream. */
  stream?: Stream | undefined;
  /** Scratch memory; without it the server lends its own. */
  workspace?: DeviceBuffer | undefined;
  /** For a repeatable executor, tensors in place of those of phase one; of the same spec. */
  bindings?: Bindings | undefined;
}

/** A planned call. One-shot, unless it was made repeatable: then it lives until `destroy`. */
export class Executor {
  /** Its id, unique in its context. */
  readonly executorId: bigint;
  /** Scratch memory that it needs, in bytes. */
  workspaceSize = 0;
  private readonly specs: Call["specs"];
  private tensors: Call["tensors"];
  private readonly signature: Signature;
  private place: string | undefined;
  private planned: Pending<AnswerOf<"getWorkspaceSize">> | undefined;
  private ended = false;

  /** Made by phase one. */
  constructor(
    /** Context that it belongs to. */
    readonly context: Context,
    call: Call,
    /** Whether it may be run more than once. */
    readonly repeatable: boolean,
  ) {
    this.executorId = context.commands.nextId();
    this.signature = call.signature;
    this.specs = call.specs;
    this.tensors = call.tensors;
    endWith(this, context.commands, { kind: "executor", id: this.executorId });
  }

  /** C name of its operator. */
  get operator(): string {
    return this.signature.name;
  }

  /**
   * Queues it on a stream; phase two in another form.
   *
   * Resolves at once, unless very much is under way already.
   *
   * @throws InvalidParameterError 161002: a tensor does not fit.
   */
  async run({ stream, workspace, bindings }: RunOptions = {}): Promise<void> {
    const lent = workspace && workspaceOf(this, workspace, workspace.size);
    await this.execute(stream, lent, bindings);
  }

  /** Ends it; without effect where that is done. Work that it queued still runs. */
  destroy(): void {
    if (this.ended) return;
    this.end();
    this.context.commands.end({ kind: "executor", id: this.executorId });
  }

  [Symbol.dispose](): void {
    this.destroy();
  }

  // --- phase one --------------------------------------------------------------------------------

  /** Sends phase one, and waits for its answer where it is wanted and not known; sets the workspace size. */
  async plan(
    call: Call,
    { wait = true, signal }: WaitOptions & { wait?: boolean } = {},
  ): Promise<void> {
    const { commands, plans } = this.context;
    const { executorId, operator, repeatable } = this;
    const parts = planParts(
      GetWorkspaceSizeRequest.create({ executorId, operator, repeatable }),
      call.messages,
    );
    const known = plans.find(call.key);
    if (known !== undefined || !wait) {
      this.planned = new Pending(parts, { onError: (error) => this.noteFailure(error) });
      commands.submit([this.planned], true);
      this.workspaceSize = known ?? 0;
      return;
    }
    const asked = new Pending<AnswerOf<"getWorkspaceSize">>(parts);
    try {
      this.workspaceSize = Number((await commands.ask(asked, { signal })).workspaceBytes);
    } catch (error) {
      if (asked.error !== undefined) this.end();
      else this.destroy(); // the wait was broken off
      throw error;
    }
    plans.keep(call.key, this.workspaceSize);
  }

  /** Keeps the failure of a plan that was not waited for, where the executor has been run. */
  private noteFailure(error: AclnnError): void {
    this.end();
    if (this.place !== undefined) this.context.commands.failures.keep(this.place, error);
  }

  private end(): void {
    this.ended = true;
    forget(this);
  }

  // --- phase two --------------------------------------------------------------------------------

  /** Sends phase two. Without `workspace` the server lends its own. */
  async execute(
    stream = this.context.defaultStream,
    workspace?: Workspace,
    bindings: Bindings = {},
  ): Promise<void> {
    const { commands } = this.context;
    if (stream.context !== this.context) {
      refuse("stream", "belongs to another context than the executor", this.operator);
    }
    const bound = Object.entries(bindings).flatMap(([name, given]) => this.bind(name, given));
    this.place = stream.streamId;
    if (this.planned?.error !== undefined) {
      commands.failures.take(this.place);
      throw again(this.planned.error);
    }
    const request = ExecuteRequest.create({
      streamId: stream.streamId,
      executorId: this.executorId,
      asynchronous: true,
      bindings: bound.map(([binding]) => binding),
      ...(workspace && { workspace }),
    });
    const posted = commands.posted("execute", request, stream.streamId);
    this.shape(posted, new Map([...this.tensors, ...bound.map(placed)]));
    commands.submit([posted]);
    stream.noteWork(
      [...this.tensors.values(), ...bound.map(([, tensor]) => tensor)].map((row) => row.buffer),
    );
    if (!this.repeatable) {
      this.end();
      this.tensors = new Map(); // the queued work holds their memory now
    }
    await commands.room();
  }

  /** Lets outputs whose shape only the run tells take it from the answer. */
  private shape(posted: Pending<AnswerOf<"execute">>, tensors: Map<string, Tensor>): void {
    this.signature.parameters.forEach(({ shapedByData }, argument) => {
      if (!shapedByData) return;
      const told = new Promise<readonly number[] | undefined>((resolve) => {
        posted.whenDone(() => {
          const row = posted.answer?.shapes.find((shape) => shape.argument === argument);
          resolve(row?.shape.map(Number));
        });
      });
      tensors.get(slot(argument, 0))?.takeShape(told);
    });
  }

  private bind(name: string, given: Tensor | readonly Tensor[]): [Binding, Tensor][] {
    const argument = this.signature.parameters.findIndex((row) => row.name === name);
    if (argument < 0) {
      const names = this.signature.parameters.map((row) => row.name).join(", ");
      refuse(name, `cannot be bound: ${this.operator} has the parameters ${names}`, this.operator);
    }
    const tensors = given instanceof Tensor ? [given] : [...given];
    const planned = [...this.specs.keys()].filter((key) => key.startsWith(`${argument},`)).length;
    if (planned !== tensors.length) {
      refuse(name, `has ${tensors.length} tensors; phase one had ${planned}`, this.operator);
    }
    return tensors.map((tensor, element) => {
      this.checkBound(name, slot(argument, element), tensor);
      const storage = { $case: "bufferId", value: tensor.buffer.bufferId } as const;
      return [Binding.create({ argument, element, storage }), tensor];
    });
  }

  private checkBound(name: string, place: string, tensor: Tensor): void {
    if (!(tensor instanceof Tensor)) {
      refuse(name, `is ${shown(tensor)}; only a tensor can be bound`, this.operator);
    }
    if (tensor.context !== this.context) {
      refuse(name, "belongs to another context than the executor", this.operator);
    }
    if (tensor.spec.key !== this.specs.get(place)?.key) {
      refuse(name, `is ${tensor}; phase one planned another layout, and plans hold`, this.operator);
    }
  }

  /** What it is, in one line. */
  toString(): string {
    return `<${this.repeatable ? "repeatable " : ""}Executor ${this.executorId} of ${this.operator}>`;
  }
}

/** Scratch memory as it travels. */
export function workspaceOf(
  executor: Executor,
  workspace: DeviceBuffer | null,
  size: number,
): Workspace {
  const bytes = BigInt(integer(size, "workspaceSize", 0));
  if (workspace === null) return Workspace.create({ bytes });
  if (!(workspace instanceof DeviceBuffer)) {
    refuse("workspace", `is ${shown(workspace)}; it must be a buffer or null`, executor.operator);
  }
  if (workspace.context !== executor.context) {
    refuse("workspace", "belongs to another context than the executor", executor.operator);
  }
  return Workspace.create({ bufferId: workspace.bufferId, bytes });
}

/** A bound tensor by its place in the call. */
function placed([{ argument, element }, tensor]: [Binding, Tensor]): [string, Tensor] {
  return [slot(argument, element), tensor];
}
