// SPDX-License-Identifier: MIT
// Greedy continuation by llama.cpp (node-llama-cpp): one JSON line of token ids on stdin for each prompt, one JSON
// line out: tokens, and for each step the three runners-up and their distances from the best token in nat.
//   NODE_PEER=<folder with node_modules> node peer_greedy.mjs MODEL N_TOKENS THREADS FLASH(0|1) < prompts
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";
import path from "node:path";

const entry = path.join(process.env.NODE_PEER, "node_modules", "node-llama-cpp", "dist", "index.js");
const { getLlama } = await import(pathToFileURL(entry));
const [modelPath, nTokens, threads, flash] = process.argv.slice(2);

const llama = await getLlama({ gpu: false, build: "never", progressLogs: false, maxThreads: Number(threads) });
const model = await llama.loadModel({ modelPath });
const context = await model.createContext({
    contextSize: 1024, batchSize: 512, threads: Number(threads), flashAttention: flash === "1",
});
const sequence = context.getSequence();

// Four candidates at temperature 1: their probabilities keep the ratios of the whole distribution.
const options = { temperature: 1, topK: 4, topP: 1, minP: 0, seed: 1 };
const ask = (token) => [token, { generateNext: { probabilities: true, options } }];

async function evaluate(tokens) {
    const input = [...tokens.slice(0, -1), ask(tokens.at(-1))];
    const { next } = (await sequence.controlledEvaluate(input)).at(-1);
    const ranked = [...next.probabilities].sort((a, b) => b[1] - a[1]);
    const distance = (probability) => Number((Math.log(ranked[0][1]) - Math.log(probability)).toFixed(4));
    return { best: ranked[0][0], rivals: ranked.slice(1).map(([token, probability]) => [token, distance(probability)]) };
}

for await (const line of createInterface({ input: process.stdin })) {
    await sequence.clearHistory();
    const result = { tokens: [], rivals: [] };
    let pending = JSON.parse(line);
    for (let i = 0; i < Number(nTokens); i++) {
        const step = await evaluate(pending);
        result.tokens.push(step.best);
        result.rivals.push(step.rivals);
        pending = [step.best];
    }
    console.log(JSON.stringify(result));
}
await llama.dispose();
