// Bundles the tests of what is pure, for Node reads no TypeScript yet, and runs them. The folder for the bundle is the argument.

import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { spawnSync } from "node:child_process";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "vite";

const here = dirname(fileURLToPath(import.meta.url));
const out = mkdtempSync(join(process.argv[2] ?? tmpdir(), "tests-"));
const input = Object.fromEntries(readdirSync(join(here, "test")).map((name) => [name.replace(".ts", ""), join(here, "test", name)]));
await build({
  root: here,
  configFile: false,
  publicDir: false,
  logLevel: "warn",
  ssr: { noExternal: true },
  build: { outDir: out, emptyOutDir: false, ssr: true, target: "es2023", minify: false, rolldownOptions: { input, output: { entryFileNames: "[name].mjs" } } },
});
const files = Object.keys(input).map((name) => join(out, `${name}.mjs`));
const { status } = spawnSync(process.execPath, ["--test", ...files], { stdio: "inherit" });
rmSync(out, { recursive: true, force: true });
process.exit(status ?? 1);
