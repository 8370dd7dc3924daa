/** Addresses of servers. */

import { refuse, shown } from "./refusing.js";

/**
 * gRPC's name for an address.
 *
 * @param address `host:port`, `[IPv6]:port` or `unix:path`.
 * @throws InvalidParameterError 161002: it is none of these.
 */
export function targetOf(address: string): string {
  if (typeof address !== "string") throw bad(address, "no text");
  if (address.startsWith("unix:")) {
    const path = address.slice("unix:".length).replace(/^\/\//, "");
    if (!path || path.includes("\0")) throw bad(address, "no path of a socket");
    return `unix:${path}`;
  }
  if (address.includes("://")) throw bad(address, "a URL; leave out what is before the host");
  const split = address.lastIndexOf(":");
  if (split < 0) throw bad(address, "no port");
  const [host, port] = [address.slice(0, split), address.slice(split + 1)];
  if (!host) throw bad(address, "no host");
  if (!/^\d+$/.test(port) || Number(port) < 1 || Number(port) > 65535)
    throw bad(address, "no port of 1 to 65535");
  if (host.includes(":") && !/^\[[0-9a-fA-F:.]+(%\w+)?\]$/.test(host)) {
    throw bad(address, "an IPv6 address without brackets");
  }
  if (!/^([\w.-]+|\[.+\])$/.test(host)) throw bad(address, "no host name");
  return `dns:///${address}`;
}

/** Whether the address is on this machine, as far as the name tells. */
export function isLocal(target: string): boolean {
  return /^unix:|^dns:\/\/\/(localhost|127\.[\d.]+|\[::1\]):\d+$/.test(target);
}

function bad(address: unknown, what: string): never {
  refuse(
    "address",
    `is ${shown(address)} (${what}); it must be host:port, [IPv6]:port or unix:path`,
  );
}
