import { startTheme } from "./theme.js";
import { get, key, useKey } from "./api.js";
import { analyse, startAnalysing } from "./analyse.js";
import { readState, state, writeState } from "./state.js";
import { languagesChanged, startTranslating } from "./translate.js";

const $ = (id) => document.getElementById(id);

function showProblem(message) {
  $("problem").textContent = message;
  $("problem").hidden = !message;
}

function startTabs() {
  const tabs = [$("tab-translate"), $("tab-analyse")];
  const open = (name) => {
    for (const tab of tabs) {
      const panel = tab.getAttribute("aria-controls");
      tab.setAttribute("aria-selected", String(panel === name));
      tab.tabIndex = panel === name ? 0 : -1;
      $(panel).hidden = panel !== name;
    }
    writeState({ tab: name });
    if (name === "analyse") analyse();
  };
  tabs.forEach((tab, row) => {
    tab.addEventListener("click", () => open(tab.getAttribute("aria-controls")));
    tab.addEventListener("keydown", (event) => {
      if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
      const other = tabs[(row + 1) % tabs.length];
      other.focus();
      open(other.getAttribute("aria-controls"));
    });
  });
  open(state.tab === "analyse" ? "analyse" : "translate");
}

function startLanguages(models) {
  const nameOf = (model) => `${model.source_name} → ${model.target_name}`;
  const label = () => {
    const model = models.find((one) => one.model === state.model);
    for (const id of ["source-label", "pair-source-label"]) $(id).textContent = model.source_name;
    for (const id of ["target-label", "pair-target-label"]) $(id).textContent = model.target_name;
    for (const id of ["translation", "pair-segments", "prefix", "pair-target"]) $(id).lang = model.target;
    for (const id of ["source", "pair-source"]) $(id).lang = model.source;
    document.title = `${nameOf(model)}: ssmt`;
  };
  if (!models.some((one) => one.model === state.model)) state.model = models[0].model;
  $("model").replaceChildren(...models.map((model) => new Option(nameOf(model), model.model)));
  $("model").value = state.model;
  $("languages").hidden = models.length < 2;
  $("languages-fixed").textContent = models.length < 2 ? nameOf(models[0]) : "";
  $("model").addEventListener("change", () => {
    writeState({ model: $("model").value });
    label();
    languagesChanged();
    if (state.tab === "analyse") analyse();
  });
  label();
}

async function start() {
  startTheme($("theme"));
  readState();
  const [settings, models] = await Promise.all([get("frontend/settings"), get("v1/models")]);
  startLanguages(models);
  $("key-form").hidden = !settings.keyRequired;
  $("key").value = key;
  $("key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    useKey($("key").value);
    languagesChanged();
  });
  startTranslating(settings, showProblem);
  startAnalysing(showProblem);
  startTabs();
  $("source").focus();
}

start().catch((error) => showProblem(error.message));
