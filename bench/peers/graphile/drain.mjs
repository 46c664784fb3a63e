// Drains no-op jobs with graphile-worker, in the fastest of its documented configurations on a machine of two cores.
//   node drain.mjs URL JOBS [CONCURRENCY [LOCAL_QUEUE [BATCH_DELAY]]]
// Fills the queue with its bulk function, says `ready`, drains when told to by a line, says what it took as JSON.
import { once } from "node:events";
import { createInterface } from "node:readline";
import { Logger, makeWorkerUtils, run } from "graphile-worker";

const [url, jobs, concurrency = "100", local = "1000", delay = "0"] = process.argv.slice(2);
const count = Number(jobs);
const quiet = new Logger(() => () => {});
const input = createInterface({ input: process.stdin });
const told = once(input, "line");

const utils = await makeWorkerUtils({ connectionString: url, logger: quiet });
await utils.migrate();
for (let from = 0; from < count; from += 1000) {
  const size = Math.min(1000, count - from);
  await utils.addJobs(Array.from({ length: size }, (_, n) => ({ identifier: "noop", payload: { n: from + n } })));
}
console.log("ready");
await told;

let begun = 0;
let finish;
const finished = new Promise((resolve) => (finish = resolve));
const [cpu, start] = [process.cpuUsage(), process.hrtime.bigint()];
const runner = await run({
  taskList: {
    noop: async () => {
      begun += 1;
      if (begun === count) finish();
    },
  },
  preset: {
    worker: {
      connectionString: url,
      concurrentJobs: Number(concurrency),
      maxPoolSize: 10,
      logger: quiet,
      localQueue: { size: Number(local) },
      completeJobBatchDelay: Number(delay),
      failJobBatchDelay: Number(delay),
    },
  },
});
await finished;
// Waits for what is still to be written: until then nothing is durable.
await runner.stop();
const wall = Number(process.hrtime.bigint() - start) / 1e9;
const { user, system } = process.cpuUsage(cpu);
const left = await utils.withPgClient((pg) => pg.query("SELECT count(*)::int AS n FROM graphile_worker.jobs"));
console.log(JSON.stringify({ wall_s: wall, cpu_s: (user + system) / 1e6, left: left.rows[0].n }));
await utils.release();
input.close();
process.exit(0);
