/** What a server is, what it can do, and what is in use. */

import type { Connection } from "./connection.js";
import { type ConnectionOptions, Connection as Opened } from "./connection.js";
import { type DType, dtypeOf } from "./dtypes.js";
import type * as device from "./generated/messages/aclnn/v1/device_service.js";
import {
  GetServerInfoRequest,
  ListDevicesRequest,
} from "./generated/messages/aclnn/v1/device_service.js";
import {
  GetOperatorRequest,
  ListOperatorsRequest,
  type OperatorInfo as OperatorMessage,
} from "./generated/messages/aclnn/v1/operator_service.js";
import * as methods from "./methods.js";
import type { Form, ParameterRow } from "./signatures.js";
import type { WaitOptions } from "./submit.js";

type Numbers<M> = { readonly [K in keyof M]: M[K] extends bigint ? number : M[K] };

/** What a server or a context may hold; 0 is no limit. */
export type Limits = Numbers<device.Limits>;
/** What a server or a context holds. */
export type Usage = Numbers<device.Usage>;
/** One device. */
export type DeviceInfo = Numbers<device.Device>;

/** What a server is. */
export interface ServerInfo {
  readonly version: string;
  /** Oldest and newest version of the protocol that it speaks. */
  readonly protocol: readonly [min: number, max: number];
  /** Changes with every start of the server. */
  readonly epoch: string;
  /** Backend that computes: `"numpy"`, `"null"`, `"ascend"`. */
  readonly backend: string;
  /** Product whose dtype rules are enforced. */
  readonly soc: string;
  readonly operatorCount: number;
  /** Lease of a context that asks for none, in milliseconds. */
  readonly defaultLease: number;
  /** Names of optional features. */
  readonly features: readonly string[];
  readonly limits: Limits;
  readonly usage: Usage;
  readonly devices: readonly DeviceInfo[];
}

/** One parameter of an operator's phase one. */
export interface ParameterInfo {
  readonly name: string;
  readonly cType: string;
  readonly output: boolean;
  readonly optional: boolean;
  /** Whether it is an output that is given as large as it may become, and takes its shape from the run. */
  readonly shapedByData: boolean;
  /** Element types allowed, for tensors; empty where not known. */
  readonly dtypes: readonly DType[];
}

/** An operator as the server knows it. */
export interface OperatorInfo {
  /** C name, with the aclnn prefix. */
  readonly name: string;
  readonly parameters: readonly ParameterInfo[];
  readonly summary: string;
  /** Formula, semantics, source; empty in a list. */
  readonly description: string;
  readonly backends: readonly string[];
  /** Why it cannot be served; empty where it can. */
  readonly refusedBecause: string;
  /** The one-line form, where there is one. */
  readonly oneLine: Form | undefined;
}

/** Counts are below 2**53. */
export function numbers<M extends object>(message: M): Numbers<M> {
  const entries = Object.entries(message).map(([name, value]) => [
    name,
    typeof value === "bigint" ? Number(value) : value,
  ]);
  return Object.fromEntries(entries) as Numbers<M>;
}

/**
 * Asks a server what it is, without opening a context.
 *
 * @throws ServerUnavailable: no answer.
 */
export async function serverInfo(
  address: string,
  options: ConnectionOptions & WaitOptions = {},
): Promise<ServerInfo> {
  const connection = new Opened(address, options);
  try {
    return await askInfo(connection, options);
  } finally {
    connection.close();
  }
}

/** Asks the server of a connection what it is. */
export async function askInfo(
  connection: Connection,
  { signal }: WaitOptions = {},
): Promise<ServerInfo> {
  const ask = { repeatable: true, signal } as const;
  const info = await connection.call(methods.GET_SERVER_INFO, GetServerInfoRequest.create(), {
    ...ask,
    doing: "asking what it is",
  });
  const { devices } = await connection.call(methods.LIST_DEVICES, ListDevicesRequest.create(), {
    ...ask,
    doing: "asking for its devices",
  });
  const { version, epoch, backend, soc, operatorCount, features, defaultLease } = info;
  return {
    version,
    protocol: [info.protocolMin, info.protocolMax],
    epoch,
    backend,
    soc,
    operatorCount,
    features,
    defaultLease: defaultLease ? Number(defaultLease.seconds) * 1000 + defaultLease.nanos / 1e6 : 0,
    limits: numbers(info.limits!),
    usage: numbers(info.usage!),
    devices: devices.map(numbers),
  };
}

/** Asks for the catalogue: every operator whose name begins with `prefix`, without description. */
export async function askOperators(
  connection: Connection,
  prefix = "",
  { signal }: WaitOptions = {},
): Promise<OperatorInfo[]> {
  const options = { doing: "asking for its operators", repeatable: true, signal };
  const answer = await connection.call(
    methods.LIST_OPERATORS,
    ListOperatorsRequest.create({ prefix }),
    options,
  );
  return answer.operators.map(operatorInfo);
}

/**
 * Asks for one operator.
 *
 * @throws OperatorNotFoundError 100024: the server has no such operator.
 */
export async function askOperator(
  connection: Connection,
  name: string,
  { signal }: WaitOptions = {},
): Promise<OperatorInfo> {
  const doing = `asking for ${name.replace(/[^A-Za-z0-9_]/g, "?").slice(0, 100)}`;
  const request = GetOperatorRequest.create({ operator: name });
  const answer = await connection.call(methods.GET_OPERATOR, request, {
    doing,
    repeatable: true,
    signal,
  });
  return operatorInfo(answer.operator!);
}

function operatorInfo(message: OperatorMessage): OperatorInfo {
  const { name, summary, description, backends, refusedBecause } = message;
  const parameters = message.parameters.map(
    ({ name, cType, output, optional, dataTypes, shapedByData }) => ({
      name,
      cType,
      output,
      optional,
      shapedByData,
      dtypes: dataTypes.map(dtypeOf).filter((type) => type !== undefined),
    }),
  );
  const oneLine = formOf(message.oneLine, name);
  return { name, parameters, summary, description, backends, refusedBecause, oneLine };
}

/** Parameters as a signature is made of them. */
export function rowsOf(info: OperatorInfo): ParameterRow[] {
  return info.parameters.map(({ cType, name, output, optional, shapedByData }) => [
    cType,
    name,
    output,
    optional,
    shapedByData,
  ]);
}

/** Reads the one-line form of an operator; undefined where the text is empty, or no form that can be used. */
function formOf(text: string, operator: string): Form | undefined {
  try {
    const row = JSON.parse(text);
    const outputs = Object.entries<Partial<Form["outputs"][string]>>(row.outputs).map(
      ([name, rule]) => [
        name,
        {
          shape: rule.shape ?? "broadcast",
          dtype: rule.dtype ?? "promoted",
          scalars: rule.scalars ?? [],
        },
      ],
    );
    return {
      name: String(row.name),
      operator,
      inputs: [...row.inputs],
      attributes: { ...row.attributes },
      outputs: Object.fromEntries(outputs),
      choices: row.choices ?? {},
    };
  } catch {
    return undefined;
  }
}
