// How soon an idle graphile-worker begins a job: from the acknowledged addJob to the task's first line, and from its call.
//   node pickup.mjs URL SAMPLES CONCURRENCY
// Says `ready`, begins when told to by a line, says what every sample took, in milliseconds, as JSON: two lists.
import { once } from "node:events";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { Logger, makeWorkerUtils, run } from "graphile-worker";

const [url, samples, concurrency] = process.argv.slice(2);
const quiet = new Logger(() => () => {});
const input = createInterface({ input: process.stdin });
const told = once(input, "line");
const utils = await makeWorkerUtils({ connectionString: url, logger: quiet });
await utils.migrate();

let begin;
const runner = await run({
  taskList: { noop: async () => begin(performance.now()) },
  preset: {
    worker: { connectionString: url, concurrentJobs: Number(concurrency), maxPoolSize: 10, logger: quiet },
  },
});
console.log("ready");
await told;
// It listens before long.
await sleep(1000);
const [took, whole] = [[], []];
for (let n = 0; n < Number(samples); n += 1) {
  // The rhythm in which Windlass is asked.
  await sleep(8 + ((n * 7919) % 12000) / 1000);
  const begun = new Promise((resolve) => (begin = resolve));
  const called = performance.now();
  await utils.addJob("noop", { n });
  const acknowledged = performance.now();
  took.push(Math.max(0, (await begun) - acknowledged));
  whole.push((await begun) - called);
}
await runner.stop();
console.log(JSON.stringify([took, whole]));
await utils.release();
process.exit(0);
