/** The example and the README's program, run as a user would. */

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import test, { after, before } from "node:test";
import { PROJECT, type Program, serve } from "./bench.js";

const FOLDER = `${PROJECT}examples/node/`;
let program: Program;
let address: string;

before(async () => {
  [program, address] = await serve();
  // As `npm install` does.
  mkdirSync(`${FOLDER}node_modules`, { recursive: true });
  rmSync(`${FOLDER}node_modules/aclnn-client`, { force: true });
  symlinkSync("../../../client/node", `${FOLDER}node_modules/aclnn-client`);
});

after(() => program.stop());

/** Runs a program; gives what it prints. */
function run(...args: string[]): string {
  const done = spawnSync(process.execPath, args, { cwd: FOLDER, encoding: "utf8" });
  assert.equal(done.stderr, "");
  assert.equal(done.status, 0);
  return done.stdout;
}

test("the example prints the eight results, twice, and how it was refused", () => {
  const [workspace, result, mean, refused] = run("two_phase.mjs", address).split("\n");
  assert.match(workspace!, /^workspace: \d+ bytes$/);
  assert.equal(result, "-1 0 1 1 1 1 1 1");
  assert.equal(mean, "-0.125 0 0.125 0.125 0.125 0.125 0.125 0.125");
  assert.equal(refused, "refused with 161002 ACLNN_ERR_PARAM_INVALID: beta is at fault");
});

test("the programs of the documentation print what it says", () => {
  const page = readFileSync(`${PROJECT}docs/clients/node.md`, "utf8");
  const blocks = [...page.matchAll(/^```js\n(.*?)^```\n\n```text\n(.*?)^```$/gms)];
  assert.ok(blocks.length >= 1);
  for (const [, code, printed] of blocks) {
    const text = code!.replaceAll("localhost:50051", address);
    assert.equal(run("--input-type=module", "--eval", text), printed);
  }
});
