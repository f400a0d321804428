// The interfaces as openapi.json describes them, each with a request to try.
import { get, key, useKey } from "./api.js";
import { element } from "./segments.js";
import { startTheme } from "./theme.js";

const $ = (id) => document.getElementById(id);
const FORM = "application/x-www-form-urlencoded";
const EXAMPLES = { q: "text", sources: ["a sentence"], targets: ["a sentence"], texts: ["a text"], text: ["a text"] };
let spec;
let models;

function resolved(schema) {
  return schema?.$ref ? schema.$ref.split("/").slice(1).reduce((inside, name) => inside[name], spec) : (schema ?? {});
}

// The type of a field in words.
function typeOf(schema) {
  const found = resolved(schema);
  if (found.enum) return found.enum.map((value) => JSON.stringify(value)).join(", ");
  if (found.const !== undefined) return JSON.stringify(found.const);
  if (found.anyOf) return found.anyOf.map(typeOf).join(" or ");
  if (found.type === "array") return `list of ${typeOf(found.items)}`;
  return found.type ?? "anything";
}

function table(rows) {
  const made = element("table");
  for (const [name, type, initial, text] of rows) {
    const row = made.insertRow();
    const about = element("td");
    about.append(...prose(text));
    row.append(element("th", "", name), element("td", "", type), element("td", "faint", initial), about);
  }
  const around = element("div", "table");
  around.append(made);
  return around;
}

function fieldsOf(schema) {
  const required = new Set(schema.required ?? []);
  return Object.entries(schema.properties ?? {}).map(([name, field]) => [
    name,
    typeOf(field),
    required.has(name) ? "needed" : field.default === undefined ? "" : JSON.stringify(field.default),
    field.description ?? "",
  ]);
}

function exampleOf(schema) {
  const [{ model, source, target }] = models;
  const known = { ...EXAMPLES, source, target, target_lang: target.toUpperCase() };
  const named = models.length > 1 && schema.properties.model ? { model } : {};
  return { ...named, ...Object.fromEntries((schema.required ?? []).map((name) => [name, known[name] ?? ""])) };
}

// What stands between `these` is code.
function prose(text) {
  return text.split("`").map((part, row) => (row % 2 ? element("code", "", part) : part));
}

async function send(method, path, body, output) {
  const headers = body === undefined ? {} : { "Content-Type": "application/json" };
  if (key) headers.Authorization = `${path.startsWith("/v2/") ? "DeepL-Auth-Key" : "Bearer"} ${key}`;
  const response = await fetch(`.${path}`, { method, headers, body });
  const text = await response.text();
  let shown = text;
  try {
    shown = JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    // not JSON: as it is
  }
  output.textContent = `${response.status}\n${shown}`;
  output.hidden = false;
}

function operation(path, method, about) {
  const made = element("details", "card");
  const title = element("summary");
  title.append(element("code", "", `${method.toUpperCase()} ${path}`), " ", ...prose(about.description ?? about.summary));
  made.append(title);
  const parameters = about.parameters ?? [];
  if (parameters.length) {
    const rows = parameters.map((one) => [`${one.name} (${one.in})`, typeOf(one.schema), "", one.description ?? one.schema.description ?? ""]);
    made.append(table(rows));
  }
  const content = about.requestBody?.content;
  const schema = content && resolved(content["application/json"].schema);
  const body = element("textarea");
  if (schema) {
    made.append(element("p", "faint small", `A JSON object${content[FORM] ? ", or a form" : ""}:`), table(fieldsOf(schema)));
    body.rows = 4;
    body.spellcheck = false;
    body.value = JSON.stringify(exampleOf(schema), null, 1);
    body.setAttribute("aria-label", "Body of the request");
    made.append(body);
  }
  const button = element("button", "", "Send");
  const output = element("pre");
  output.hidden = true;
  button.type = "button";
  button.addEventListener("click", () => {
    send(method.toUpperCase(), path, schema ? body.value : undefined, output).catch((error) => {
      output.textContent = error.message;
      output.hidden = false;
    });
  });
  made.append(button, output);
  return made;
}

async function start() {
  startTheme($("theme"));
  $("key").value = key;
  $("key").addEventListener("input", () => useKey($("key").value));
  [spec, models] = await Promise.all([get("openapi.json"), get("v1/models")]);
  const groups = new Map();
  for (const [path, methods] of Object.entries(spec.paths)) {
    for (const [method, about] of Object.entries(methods)) {
      const name = about.tags?.[0] ?? "";
      if (!groups.has(name)) groups.set(name, []);
      groups.get(name).push(operation(path, method, about));
    }
  }
  for (const [name, operations] of groups) $("operations").append(element("h2", "", name), ...operations);
}

start().catch((error) => {
  $("problem").textContent = error.message;
  $("problem").hidden = false;
});
