// Builds `dist` from `src`: two programs, the part they share, one style sheet, two documents; each with a gzip and a brotli twin.
// `node build.mjs FOLDER` builds into another folder, to compare.

import { createHash } from "node:crypto";
import { mkdir, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import { build } from "vite";

const here = dirname(fileURLToPath(import.meta.url));
const out = resolve(process.argv[2] ?? join(here, "dist"));

await rm(out, { recursive: true, force: true });
await mkdir(out, { recursive: true });
await build({
  root: here,
  base: "./",
  configFile: false,
  publicDir: false,
  logLevel: "warn",
  build: {
    outDir: out,
    emptyOutDir: false,
    target: "es2023",
    cssCodeSplit: false,
    modulePreload: false,
    reportCompressedSize: false,
    // Nothing is inlined: the policy takes no data: addresses.
    assetsInlineLimit: 0,
    rolldownOptions: {
      input: { app: join(here, "src/app.tsx"), approve: join(here, "src/approve.tsx") },
      output: {
        // Stable names, so that a change is a change of files and not new ones.
        entryFileNames: "[name].js",
        chunkFileNames: "[name].js",
        assetFileNames: "page[extname]",
        codeSplitting: { groups: [{ name: "base", test: /node_modules|src\/base\// }] },
      },
    },
  },
});
await writeFile(join(out, "icon.svg"), await readFile(join(here, "src/icon.svg")));

// What the documents load stands under a name that changes with its content, and is kept for good by browsers.
const hash = createHash("sha256");
for (const name of (await readdir(out)).sort()) hash.update(name).update("\0").update(await readFile(join(out, name)));
const tag = hash.digest("hex").slice(0, 16);
await writeFile(join(out, "BUILD"), tag);
for (const name of ["index.html", "approve.html"]) {
  const text = await readFile(join(here, "src", name), "utf8");
  await writeFile(join(out, name), text.replaceAll("static/BUILD/", `static/${tag}/`));
}

for (const name of (await readdir(out)).filter((name) => name !== "BUILD")) {
  const content = await readFile(join(out, name));
  await writeFile(join(out, `${name}.gz`), gzipSync(content, { level: 9 }));
  await writeFile(join(out, `${name}.br`), brotliCompressSync(content, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } }));
}
