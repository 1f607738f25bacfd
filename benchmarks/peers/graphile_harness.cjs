// The program that measures graphile-worker: harness.py in JavaScript, with the same orders and answers.
//
//     node graphile_harness.cjs <directory with node_modules>
//
// An order is one line of JSON on stdin, its answer one line on stdout. An error ends the process.
"use strict";

const { createRequire } = require("node:module");
const path = require("node:path");
const readline = require("node:readline");

const installed = createRequire(path.join(path.resolve(process.argv[2]), "package.json"));
const { Logger, makeWorkerUtils, run, runMigrations } = installed("graphile-worker");

const TASK = "bench";
const POOL = 25;
const PATIENCE = 8000;
const SHORTEST_PAUSE = 0.005;
// As in graphile-worker's own performance test: its local queue is on, and ends are written in batches.
const WORKER = { concurrentJobs: 24, maxPoolSize: POOL, localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 };

const logger = new Logger(() => (level, message) => level === "error" && process.stderr.write(`${message}\n`));
const now = () => Number(process.hrtime.bigint()) / 1e9; // the same clock as Python's time.monotonic
const pause = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000));
const say = (answer) => process.stdout.write(`${JSON.stringify(answer)}\n`);

async function opened(order, use) {
  const utils = await makeWorkerUtils({ connectionString: order.url, maxPoolSize: POOL, logger });
  try {
    return await use({
      enqueue: (payload) => utils.addJob(TASK, payload),
      enqueueMany: (payloads) => utils.addJobs(payloads.map((payload) => ({ identifier: TASK, payload }))),
    });
  } finally {
    await utils.release();
  }
}

async function working(order, handle, use) {
  const preset = { worker: { ...WORKER, connectionString: order.url, logger } };
  const taskList = { [TASK]: (payload) => handle(payload) };
  const runner = await run({ preset, taskList, noHandleSignals: true, parsedCronItems: [] });
  try {
    return await use();
  } finally {
    await runner.stop();
  }
}

async function install(order) {
  await runMigrations({ connectionString: order.url, logger });
  return true;
}

const enqueue = (order) =>
  opened(order, async (peer) => {
    const callers = Array.from({ length: order.callers });
    await Promise.all(callers.map(() => peer.enqueue(order.payload))); // connections open
    const began = now();
    let taken = 0;
    const call = async () => {
      while (taken < order.count && now() < began + order.seconds) {
        taken += 1;
        await peer.enqueue(order.payload);
      }
    };
    await Promise.all(callers.map(call));
    return { count: taken, seconds: now() - began };
  });

const bulk = (order) =>
  opened(order, async (peer) => {
    const began = now();
    let done = 0;
    while (done < order.count && now() < began + order.seconds) {
      const size = Math.min(order.size, order.count - done);
      await peer.enqueueMany(Array.from({ length: size }, () => order.payload));
      done += size;
    }
    return { count: done, seconds: now() - began };
  });

// Timed from the first start to the last, so that start-up time does not count against the peer.
async function drain(order) {
  let [ran, first, last, over] = [0, 0, 0, false];
  let end;
  const ended = new Promise((resolve) => (end = resolve));
  const handle = () => {
    if (over) return;
    last = now();
    first ||= last;
    ran += 1;
    if (ran >= order.count) end();
  };
  await working(order, handle, async () => {
    const timer = setTimeout(end, order.seconds * 1000);
    await ended;
    clearTimeout(timer);
    over = true;
  });
  return { count: Math.max(0, ran - 1), seconds: last - first };
}

class Starts {
  seen = new Map();

  note(payload) {
    if (!this.seen.has(payload.probe)) this.seen.set(payload.probe, now());
  }

  async wait(count) {
    const until = Date.now() + PATIENCE;
    while (this.seen.size < count && Date.now() < until) await pause(0.001);
    return Object.fromEntries([...this.seen].filter(([number]) => number >= 0));
  }
}

async function probe(peer, order) {
  const calls = [];
  const ends = now() + order.seconds;
  while (calls.length < order.count && now() < ends) {
    await pause(SHORTEST_PAUSE + Math.random() * (order.pause - SHORTEST_PAUSE));
    const payload = { ...order.payload, probe: calls.length };
    calls.push(now());
    await peer.enqueue(payload);
  }
  return calls;
}

// One job that does not count is run before `use`.
const receiving = (order, use) =>
  opened(order, (peer) => {
    const starts = new Starts();
    return working(order, (payload) => starts.note(payload), async () => {
      await peer.enqueue({ ...order.payload, probe: -1 });
      await starts.wait(1);
      return use(peer, starts);
    });
  });

const startsInside = (order) =>
  receiving(order, async (peer, starts) => {
    const calls = await probe(peer, order);
    return { calls, starts: await starts.wait(calls.length + 1) };
  });

const send = (order) => opened(order, async (peer) => ({ calls: await probe(peer, order) }));

const receive = (order, nextLine) =>
  receiving(order, async (_peer, starts) => {
    say("ready");
    return { starts: await starts.wait(Number(await nextLine()) + 1) };
  });

const PROGRAMS = { install, enqueue, bulk, drain, starts_inside: startsInside, send, receive };

async function main() {
  const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
  const nextLine = async () => (await lines.next()).value;
  for (let line = await nextLine(); line !== undefined; line = await nextLine()) {
    const order = JSON.parse(line);
    say(await PROGRAMS[order.program](order, nextLine));
  }
}

main().catch((error) => {
  process.stderr.write(`${error.message}\n`);
  process.exit(1);
});
