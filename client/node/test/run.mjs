/**
 * Runs the tests that were compiled: node test/run.mjs [NAME ...]
 *
 * `node --test` has no time limit for a test in every version that the client runs on.
 */

import { readdirSync } from "node:fs";
import { run } from "node:test";
import { spec } from "node:test/reporters";
import { fileURLToPath } from "node:url";

const PATIENCE_MS = 120_000;
const folder = fileURLToPath(new URL("../build/test/", import.meta.url));
const names = process.argv.slice(2);
const files = readdirSync(folder)
  .filter((file) => file.endsWith(".test.js"))
  .filter((file) => names.length === 0 || names.some((name) => file.startsWith(name)))
  .map((file) => folder + file);

run({ files, concurrency: true, timeout: PATIENCE_MS })
  .on("test:fail", () => {
    process.exitCode = 1;
  })
  .compose(new spec())
  .pipe(process.stdout);
