// What the page shows, as it stands in the address after the #: that part is never sent to the service.

// `choices` has, for each sentence by its number, its beginning and the place of its translation among the best.
export const state = { tab: "translate", model: "", text: "", choices: "", source: "", target: "" };

export function translationKey(model, source, prefix) {
  return JSON.stringify([model, source, prefix]);
}

export function readState() {
  const said = new URLSearchParams(location.hash.slice(1));
  for (const name of Object.keys(state)) if (said.has(name)) state[name] = said.get(name);
}

export function writeState(changes) {
  Object.assign(state, changes);
  const said = new URLSearchParams(Object.entries(state).filter(([, value]) => value));
  history.replaceState(null, "", `#${said}`);
}

// Calls a function once nothing has happened for a while, or at once.
export function whenPaused(action, milliseconds = 350) {
  let timer;
  return (now = false) => {
    clearTimeout(timer);
    timer = setTimeout(action, now === true ? 0 : milliseconds);
  };
}
