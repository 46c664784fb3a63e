#!/usr/bin/env node
// A handler in Node.js: stops by itself when it is asked to.
//
//   windlass work --queue default --kind resize --exec node examples/exec/resize.mjs
//   windlass enqueue resize --payload '{"image":"cat.png","widths":[320,640]}' --wait
import { text } from "node:stream/consumers";

let stopping = false;
// Cancelled, too late, or the lease is lost. What is left after --kill-after gets SIGKILL.
process.on("SIGTERM", () => {
  stopping = true;
});

const { image, widths = [] } = JSON.parse(await text(process.stdin)) ?? {};
if (typeof image !== "string") {
  console.error("the payload names no image");
  process.exit(65);
}

const made = [];
for (const width of widths) {
  if (stopping) process.exit(1);
  console.error(`resizing ${image} to ${width}`);
  // The attempt is the fence: no older one can overwrite what a newer one made.
  made.push(`${image}@${width}#${process.env.WINDLASS_ATTEMPT}`);
}
console.log(JSON.stringify({ made }));
