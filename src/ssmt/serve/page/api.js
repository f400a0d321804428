// Requests to the service that this page comes from.
import { translationKey } from "./state.js";

export let key = sessionStorage.getItem("key") ?? "";

export function useKey(value) {
  key = value.trim();
  sessionStorage.setItem("key", key);
}

export async function get(path) {
  return answered(await fetch(path));
}

export async function post(path, body, signal) {
  const headers = { "Content-Type": "application/json" };
  if (key) headers.Authorization = `Bearer ${key}`;
  return answered(await fetch(path, { method: "POST", headers, body: JSON.stringify(body), signal }));
}

async function answered(response) {
  const content = await response.json().catch(() => ({}));
  if (!response.ok) {
    const wait = response.headers.get("Retry-After");
    throw new Error((content.error ?? `The service answers ${response.status}`) + (wait ? ` (in ${wait} seconds)` : ""));
  }
  return content;
}

const remembered = new Map();

// The n best translations of each source, given its beginning; what was asked before is not asked again.
export async function translate(model, sentences, signal) {
  const missing = sentences.filter(({ source, prefix }) => !remembered.has(translationKey(model, source, prefix)));
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
  const missing = pairs.filter((pair) => !cuts.has(nameOf(pair)));
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
