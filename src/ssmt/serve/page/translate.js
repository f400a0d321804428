// The first tab: text, its translation in segments, other translations, and beginnings that are kept.
import { groups, post, posteriors, translate } from "./api.js";
import { decimal, draw, element } from "./segments.js";
import { state, whenPaused, writeState } from "./state.js";

const $ = (id) => document.getElementById(id);
const share = (part) => (part < 0.005 ? "<1 %" : `${Math.round(100 * part)} %`);
const LONG = 1500; // characters: the pane scrolls, as that of the source does
const hasLetters = (text) => /\p{L}/u.test(text);

let gaps = [""];
let sentences = []; // { source, prefix, record, chosen, cuts }
let active = -1;
let request = null;
let report = () => {};
let characterLimit = Infinity;

export function startTranslating(settings, showProblem) {
  report = showProblem;
  characterLimit = settings.charLimit;
  const later = whenPaused(update);
  $("source").addEventListener("input", () => {
    writeState({ text: $("source").value });
    count();
    later();
  });
  $("clear").addEventListener("click", () => {
    $("source").value = "";
    $("source").dispatchEvent(new Event("input"));
    $("source").focus();
  });
  $("copy").addEventListener("click", () => copy(wholeTranslation(), "Translation copied"));
  $("link").addEventListener("click", () => copy(location.href, "Link copied"));
  const prefixLater = whenPaused(() => begin($("prefix").value));
  $("prefix").addEventListener("input", () => prefixLater());
  $("prefix").addEventListener("keydown", (event) => {
    if (event.key === "Enter") prefixLater(true);
    if (event.key === "Escape") begin("");
  });
  $("release").addEventListener("click", () => begin(""));
  $("source").value = state.text;
  count();
  update(readChoices());
}

export function languagesChanged() {
  sentences = [];
  active = -1;
  update();
}

function count() {
  const length = [...$("source").value].length;
  $("count").classList.toggle("over", length > characterLimit);
  $("count").textContent = `${length.toLocaleString("en")} of ${characterLimit.toLocaleString("en")} characters`;
}

async function copy(text, done) {
  try {
    await navigator.clipboard.writeText(text);
    $("status").textContent = done;
  } catch {
    report("The browser does not let this page copy; select the text instead");
  }
}

const best = (sentence) => sentence.record?.n_best[sentence.chosen] ?? { translation: sentence.source, segments: [sentence.source] };

function wholeTranslation() {
  return gaps[0] + sentences.map((sentence, row) => best(sentence).translation + gaps[row + 1]).join("");
}

// Runs some work on the service; work that was begun before it is given up.
async function busy(work) {
  request?.abort();
  const mine = (request = new AbortController());
  $("translation").setAttribute("aria-busy", "true");
  try {
    await work(mine.signal);
    if (mine === request) {
      report("");
      $("translation").classList.remove("stale");
    }
  } catch (error) {
    if (error.name !== "AbortError") {
      report(error.message);
      $("translation").classList.add("stale"); // it may be of another text than the source's
    }
  } finally {
    if (mine === request) {
      $("translation").setAttribute("aria-busy", "false");
      show();
    }
  }
}

// The choices of a link, which anybody may have written.
function readChoices() {
  try {
    const said = Object.entries(JSON.parse(state.choices));
    return new Map(said.map(([row, [prefix, chosen]]) => [Number(row), { prefix: String(prefix), chosen: Math.max(0, Math.trunc(Number(chosen) || 0)) }]));
  } catch {
    return new Map();
  }
}

function writeChoices() {
  const made = sentences.map(({ prefix, chosen }, row) => [row, [prefix, chosen]]).filter(([, [prefix, chosen]]) => prefix || chosen);
  writeState({ choices: made.length ? JSON.stringify(Object.fromEntries(made)) : "" });
}

function update(choices = new Map()) {
  const text = $("source").value;
  return busy(async (signal) => {
    const [parts] = text.trim() ? (await post("v1/split", { model: state.model, texts: [text] }, signal)).results : [];
    const old = Map.groupBy(sentences, (sentence) => sentence.source);
    gaps = parts?.gaps ?? [""];
    sentences = (parts?.sentences ?? []).map(
      (source, row) => old.get(source)?.shift() ?? { source, prefix: "", chosen: 0, ...choices.get(row), record: null, cuts: null },
    );
    if (active >= sentences.length) active = -1;
    if (active < 0) active = sentences.findIndex((sentence) => hasLetters(sentence.source));
    await fill(signal);
  });
}

// Translations and cuts of all sentences that lack them, some after the other.
async function fill(signal) {
  for (const some of groups(sentences.filter((sentence) => hasLetters(sentence.source)))) {
    const records = await translate(state.model, some, signal);
    some.forEach((sentence, row) => {
      const chosen = sentence.record ? 0 : Math.min(sentence.chosen, records[row].n_best.length - 1);
      if (sentence.record !== records[row]) Object.assign(sentence, { record: records[row], chosen });
    });
    const written = some.filter((sentence) => best(sentence).translation.trim());
    const pairs = written.map((sentence) => [sentence.source, best(sentence).translation]);
    (await posteriors(state.model, pairs, signal)).forEach((row, place) => (written[place].cuts = row));
    show();
  }
  writeChoices();
}

function choose(row, place) {
  active = row;
  begin([...best(sentences[row]).translation].slice(0, place).join(""), true);
}

// The translation of the active sentence must begin with this.
function begin(prefix, intoField = false) {
  const sentence = sentences[active];
  if (!sentence?.record) return;
  sentence.prefix = prefix;
  if ($("prefix").value !== prefix) $("prefix").value = prefix;
  if (intoField) {
    show();
    $("prefix").focus();
    $("prefix").setSelectionRange(prefix.length, prefix.length);
  }
  busy(fill);
}

function pick(place) {
  sentences[active].chosen = place;
  busy(fill).then(() => $("alternatives").querySelectorAll("button")[place]?.focus());
}

function show() {
  const output = $("translation");
  const focused = [...output.querySelectorAll(".word")].indexOf(document.activeElement);
  output.replaceChildren(gaps[0]);
  sentences.forEach((sentence, row) => {
    const shown = element("span", row === active ? "sentence active" : "sentence");
    const kept = [...sentence.prefix].length;
    if (sentence.record) draw(shown, best(sentence).segments, sentence.cuts, (place) => choose(row, place), kept);
    else shown.append(sentence.source);
    output.append(shown, gaps[row + 1]);
  });
  output.classList.toggle("long", wholeTranslation().length > LONG);
  output.querySelectorAll(".word")[focused]?.focus();
  $("copy").disabled = $("link").disabled = !sentences.length;
  showSentence();
}

function showSentence() {
  const sentence = sentences[active];
  $("sentence").hidden = !sentence?.record;
  $("status").replaceChildren(...sureness());
  if (!sentence?.record) return;
  $("sentence-source").textContent = sentence.source;
  if (document.activeElement !== $("prefix")) $("prefix").value = sentence.prefix;
  $("release").hidden = !sentence.prefix;
  const shares = sentence.record.n_best.map((one) => Math.exp(one.score - sentence.record.n_best[0].score));
  const sum = shares.reduce((total, share) => total + share, 0);
  $("alternatives").replaceChildren(
    ...sentence.record.n_best.map((one, place) => {
      const button = element("button");
      button.type = "button";
      button.setAttribute("aria-pressed", String(place === sentence.chosen));
      button.append(element("span", "", one.translation || "(nothing)"));
      const numbers = element("span", "numbers", `${share(shares[place] / sum)} of these, log p ${decimal(one.score, 2)}`);
      button.append(numbers);
      button.addEventListener("click", () => pick(place));
      const item = element("li");
      item.append(button);
      return item;
    }),
  );
}

// How sure the model is of all that is shown: bits for each character, of which 0 is certain.
function sureness() {
  const done = sentences.filter((sentence) => sentence.record && best(sentence).translation);
  const characters = done.reduce((total, sentence) => total + [...best(sentence).translation].length, 0);
  if (!characters) return [];
  const bits = done.reduce((total, sentence) => total - best(sentence).score, 0) / Math.LN2 / characters;
  return [element("span", "hidden", "Translated: "), `${bits.toFixed(2)} bits a character`];
}
