// Requests to the service that this page comes from.
import { translationKey } from "./state.js";

export let key = sessionStorage.getItem("key") ?? "";

export function useKey(value) {
  key = value.trim();
  sessionStorage.setItem("key", key);
}

export async function get(path) {
  return answered(await reached(path));
}

export async function post(path, body, signal) {
  const headers = { "Content-Type": "application/json" };
  if (key) headers.Authorization = `Bearer ${key}`;
  return answered(await reached(path, { method: "POST", headers, body: JSON.stringify(body), signal }));
}

async function reached(path, options) {
  try {
    return await fetch(path, options);
  } catch (error) {
    throw error.name === "AbortError" ? error : new Error("The service cannot be reached; is it still running?");
  }
}

async function answered(response) {
  const content = await response.json().catch(() => ({}));
  if (!response.ok) {
    const wait = response.headers.get("Retry-After");
    throw new Error((content.error ?? `The service answers ${response.status}`) + (wait ? ` (in ${wait} seconds)` : ""));
  }
  return content;
}

// What goes into one request, so that the first sentences of a long text are seen before the last are computed.
const TOGETHER = 1000; // characters

export function groups(sentences) {
  const made = [];
  let length = Infinity;
  for (const sentence of sentences) {
    if (length + sentence.source.length > TOGETHER) {
      made.push([]);
      length = 0;
    }
    made.at(-1).push(sentence);
    length += sentence.source.length;
  }
  return made;
}

const remembered = new Map();

// The n best translations of each source, given its beginning; what was asked before is not asked again.
export async function translate(model, sentences, signal) {
  const wanted = new Map(sentences.map((one) => [translationKey(model, one.source, one.prefix), one]));
  const missing = [...wanted].filter(([name]) => !remembered.has(name)).map(([, one]) => one);
  if (missing.length) {
    const { results } = await post(
      "v1/translate",
      { model, sources: missing.map((one) => one.source), prefixes: missing.map((one) => one.prefix), n_best: 5 },
      signal,
    );
    results.forEach((record, row) => {
      remembered.set(translationKey(model, missing[row].source, missing[row].prefix), record);
    });
  }
  return sentences.map(({ source, prefix }) => remembered.get(translationKey(model, source, prefix)));
}

const cuts = new Map();

// The probability of a cut after each character of each target.
export async function posteriors(model, pairs, signal) {
  const nameOf = ([source, target]) => JSON.stringify([model, source, target]);
  const wanted = new Map(pairs.map((pair) => [nameOf(pair), pair]));
  const missing = [...wanted].filter(([name]) => !cuts.has(name)).map(([, pair]) => pair);
  if (missing.length) {
    const { results } = await post(
      "v1/posteriors",
      { model, sources: missing.map(([source]) => source), targets: missing.map(([, target]) => target), allow_unknown: true },
      signal,
    );
    results.forEach((record, row) => cuts.set(nameOf(missing[row]), record.posteriors));
  }
  return pairs.map((pair) => cuts.get(nameOf(pair)));
}
