// Whether `dist` and the types are what the sources and the API's document say. The document comes on standard input. With
// `--write` both are written instead.

import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { brotliDecompressSync, gunzipSync } from "node:zlib";

const here = dirname(fileURLToPath(import.meta.url));
const isWriting = process.argv.includes("--write");
const scratch = mkdtempSync(join(tmpdir(), "windlass-page-"));
const wrong = [];

function run(...args) {
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { cwd: here, input: args[0] === "types.mjs" ? readFileSync(0) : "", encoding: "utf8" });
  if (status !== 0) wrong.push(`node ${args.join(" ")}\n${stdout}${stderr}`);
  return stdout;
}

// Compressors differ from version to version; what they hold does not.
function content(folder, name) {
  const bytes = readFileSync(join(folder, name));
  return name.endsWith(".gz") ? gunzipSync(bytes) : name.endsWith(".br") ? brotliDecompressSync(bytes) : bytes;
}

try {
  const generated = join(here, "src/base/api.gen.ts");
  const types = run("types.mjs");
  if (isWriting && types) writeFileSync(generated, types);
  else if (types !== readFileSync(generated, "utf8")) wrong.push("src/base/api.gen.ts is not what the API's document says");
  run("node_modules/typescript7/bin/tsc");
  run("test.mjs", scratch);
  if (isWriting) run("build.mjs");
  else {
    const fresh = join(scratch, "dist");
    run("build.mjs", fresh);
    const [made, kept] = [fresh, join(here, "dist")].map((folder) => readdirSync(folder).sort());
    if (String(made) !== String(kept)) wrong.push(`dist holds ${kept}; a build makes ${made}`);
    for (const name of made.filter((name) => kept.includes(name))) {
      if (!content(fresh, name).equals(content(join(here, "dist"), name))) wrong.push(`dist/${name} is not what the sources say`);
    }
  }
} finally {
  rmSync(scratch, { recursive: true, force: true });
}
if (wrong.length) {
  console.error(wrong.join("\n"));
  process.exit(1);
}
