/** The unary calls of the schema that the client makes. */

import type { Method } from "./connection.js";
import * as device from "./generated/messages/aclnn/v1/device_service.js";
import * as operator from "./generated/messages/aclnn/v1/operator_service.js";

function method<Q, A>(
  service: string,
  name: string,
  request: Method<Q, A>["request"],
  response: Method<Q, A>["response"],
): Method<Q, A> {
  return { path: `/aclnn.v1.${service}/${name}`, request, response };
}

/** DeviceService.GetServerInfo. */
export const GET_SERVER_INFO = method(
  "DeviceService",
  "GetServerInfo",
  device.GetServerInfoRequest,
  device.GetServerInfoResponse,
);
/** DeviceService.ListDevices. */
export const LIST_DEVICES = method(
  "DeviceService",
  "ListDevices",
  device.ListDevicesRequest,
  device.ListDevicesResponse,
);
/** DeviceService.CreateContext. */
export const CREATE_CONTEXT = method(
  "DeviceService",
  "CreateContext",
  device.CreateContextRequest,
  device.CreateContextResponse,
);
/** DeviceService.DestroyContext. */
export const DESTROY_CONTEXT = method(
  "DeviceService",
  "DestroyContext",
  device.DestroyContextRequest,
  device.DestroyContextResponse,
);
/** OperatorService.ListOperators. */
export const LIST_OPERATORS = method(
  "OperatorService",
  "ListOperators",
  operator.ListOperatorsRequest,
  operator.ListOperatorsResponse,
);
/** OperatorService.GetOperator. */
export const GET_OPERATOR = method(
  "OperatorService",
  "GetOperator",
  operator.GetOperatorRequest,
  operator.GetOperatorResponse,
);
