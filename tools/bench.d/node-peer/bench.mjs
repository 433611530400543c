// SPDX-License-Identifier: MIT
// One run of llama.cpp (node-llama-cpp) for tools/bench peers; prints {"tokens_per_s": …}.
//   node bench.mjs FOLDER MODEL prefill|decode N N_DECODE THREADS FLASH(0|1)
// The token ids don't matter for speed; they are spread over the vocabulary.
import path from "node:path";
import { pathToFileURL } from "node:url";

const [folder, modelPath, kind, n, nDecode, threads, flash] = process.argv.slice(2);
const entry = path.join(folder, "node_modules", "node-llama-cpp", "dist", "index.js");
const { getLlama } = await import(pathToFileURL(entry));

const llama = await getLlama({ gpu: false, build: "never", progressLogs: false, maxThreads: Number(threads) });
const model = await llama.loadModel({ modelPath });
const context = await model.createContext({
    contextSize: Number(n) + Number(nDecode) + 16, batchSize: 512, threads: Number(threads), flashAttention: flash === "1",
});
const sequence = context.getSequence();
const ids = Array.from({ length: Number(n) }, (_, i) => (i * 7919) % 50000 + 100);
const seconds = (start) => (performance.now() - start) / 1000;
const greedy = { generateNext: { token: true, options: { temperature: 0 } } };

// The first evaluation pays for page faults and thread start.
await sequence.controlledEvaluate(ids.slice(0, 32));
await sequence.clearHistory();

const start = performance.now();
let [{ next }] = (await sequence.controlledEvaluate([...ids.slice(0, -1), [ids.at(-1), greedy]])).slice(-1);
let rate = ids.length / seconds(start);
if (kind === "decode") {
    const decodeStart = performance.now();
    for (let i = 0; i < Number(nDecode); i++)
        [{ next }] = await sequence.controlledEvaluate([[next.token, greedy]]);
    rate = Number(nDecode) / seconds(decodeStart);
}
console.log(JSON.stringify({ tokens_per_s: rate }));
await llama.dispose();
process.exit(0);
