/** A server for tests, in the hands of the test: see tests/conformance/bench.py. */

import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface, type Interface } from "node:readline";
import { fileURLToPath } from "node:url";

/** The folder that holds pyproject.toml, from build/test. */
export const PROJECT = fileURLToPath(new URL("../../../../", import.meta.url));
/** The interpreter that has the server. */
export const PYTHON = process.env.ACLNN_PYTHON ?? `${PROJECT}.venv/bin/python`;

/** A program that prints lines; the first tells that it is ready. */
export class Program {
  private constructor(
    private readonly child: ChildProcess,
    private readonly lines: Interface,
    /** What it printed when it was ready. */
    readonly banner: string,
  ) {}

  /** Starts a Python module. */
  static async start(module: string, ...args: string[]): Promise<Program> {
    const child = spawn(PYTHON, ["-m", module, ...args], {
      cwd: PROJECT,
      stdio: ["pipe", "pipe", "inherit"],
    });
    const lines = createInterface({ input: child.stdout! });
    const banner = await Program.next(child, lines);
    return new Program(child, lines, banner);
  }

  /** Writes a line, and gives the next one that it prints. */
  async ask(line: string): Promise<string> {
    const answer = Program.next(this.child, this.lines);
    this.child.stdin!.write(`${line}\n`);
    return answer;
  }

  /** Ends it, and waits for its end. */
  async stop(): Promise<void> {
    const exit = once(this.child, "exit");
    this.child.stdin!.end();
    this.child.kill("SIGTERM");
    await exit;
  }

  private static next(child: ChildProcess, lines: Interface): Promise<string> {
    return new Promise((resolve, reject) => {
      const ended = (): void => reject(new Error("the program ended"));
      child.once("exit", ended);
      lines.once("line", (line) => {
        child.off("exit", ended);
        resolve(line);
      });
    });
  }
}

/** The server, its proxy, and what can be done with them. */
export class Bench {
  private constructor(
    private readonly program: Program,
    /** Where clients connect to. */
    readonly address: string,
  ) {}

  /** Starts one, with settings of the server. */
  static async start(settings: Record<string, unknown> = {}): Promise<Bench> {
    const given = Object.entries(settings).map(
      ([name, value]) => `${name}=${JSON.stringify(value)}`,
    );
    const program = await Program.start("tests.conformance.bench", ...given);
    return new Bench(program, JSON.parse(program.banner).address);
  }

  /** Runs a command; see the methods of Bench in bench.py. */
  async do<T = unknown>(name: string, options: Record<string, unknown> = {}): Promise<T> {
    const answer = JSON.parse(await this.program.ask(JSON.stringify({ do: name, ...options })));
    assert.equal(answer.error, undefined);
    return answer.ok as T;
  }

  /** Ends it. */
  stop(): Promise<void> {
    return this.program.stop();
  }
}

/** Starts a server of the product, with flags of `aclnn-serve serve`; gives it and its address. */
export async function serve(...flags: string[]): Promise<[program: Program, address: string]> {
  const listen = flags.includes("--listen") ? [] : ["--listen", "127.0.0.1:0"];
  const program = await Program.start(
    "aclnn_server",
    "serve",
    ...listen,
    "--log-level",
    "error",
    ...flags,
  );
  return [program, /listening on (\S+)/.exec(program.banner)![1]!];
}
