// The second tab: a given pair, its segments, its probability, and other ways to cut it.
import { post } from "./api.js";
import { decimal, draw, element, joined } from "./segments.js";
import { state, whenPaused, writeState } from "./state.js";

const $ = (id) => document.getElementById(id);
let request = null;
let report = () => {};

export function startAnalysing(showProblem) {
  report = showProblem;
  const later = whenPaused(analyse);
  for (const side of ["source", "target"]) {
    const field = $(`pair-${side}`);
    field.value = state[side];
    field.addEventListener("input", () => {
      writeState({ [side]: field.value });
      later();
    });
  }
  if (state.tab === "analyse") analyse();
}

export async function analyse() {
  const [source, target] = [$("pair-source").value.trim(), $("pair-target").value.trim()];
  request?.abort();
  const mine = (request = new AbortController());
  $("analysis").hidden = !target;
  if (!target) return report("");
  const pair = { model: state.model, targets: [target], allow_unknown: true, ...(source ? { sources: [source] } : {}) };
  try {
    const [cut, scored] = await Promise.all([
      post("v1/segment", { ...pair, n_best: 5, posteriors: true }, mine.signal),
      source ? post("v1/score", pair, mine.signal) : null,
    ]);
    report("");
    show(cut.results[0], scored?.results[0], target);
  } catch (error) {
    if (error.name === "AbortError") return;
    $("analysis").hidden = true;
    report(error.message);
  }
}

function show(cut, scored, target) {
  $("pair-segments").replaceChildren();
  draw($("pair-segments"), cut.segments, cut.posteriors);
  const numbers = [];
  if (scored) {
    numbers.push(["log probability", decimal(scored.score, 3)]);
    numbers.push(["bits a character", decimal(-scored.score / Math.LN2 / [...target].length, 3)]);
    if (scored.score_type === "marginal") {
      numbers.push(["of it, the best segmentation", `${(100 * Math.exp(cut.score - scored.score)).toFixed(1)} %`]);
    }
  } else {
    numbers.push(["log probability of the best segmentation", decimal(cut.score, 3)]);
  }
  $("pair-numbers").replaceChildren(...numbers.flatMap(([name, value]) => [element("dt", "", name), element("dd", "", value)]));
  $("pair-candidates").replaceChildren(
    ...(cut.n_best ?? [cut]).map((one) => {
      const item = element("li");
      item.append(element("span", "", joined(one.segments)), element("span", "numbers", `log p ${decimal(one.score, 2)}`));
      return item;
    }),
  );
}
