// Writes the types of the API's answers from its document, which is read from standard input: `curl localhost:7070/openapi.json | node types.mjs`.
// With a path, the text goes there.

import { readFileSync, writeFileSync } from "node:fs";
import openapiTS, { astToString } from "openapi-typescript";

const { openapi, info, components } = JSON.parse(readFileSync(0, "utf8"));
const head = "// Made by types.mjs from the API's document. Not to be edited.\n\n";
const made = await openapiTS({ openapi, info, paths: {}, components: { schemas: components.schemas } }, { silent: true });
const text = head + astToString(made);
if (process.argv[2]) writeFileSync(process.argv[2], text);
else process.stdout.write(text);
