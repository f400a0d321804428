// Text in coloured segments. Code points are counted as the service counts them, not halves of characters.

const HUES = 6;
const percent = (share) => `${Math.round(100 * share)} %`;

// A number with a sign that is as wide as its digits.
export const decimal = (value, digits) => value.toFixed(digits).replace("-", "−");

// Only cuts inside words are a choice: everywhere else there must be one.
const isChoice = (before, after) => /[\p{L}\p{M}]$/u.test(before) && /^[\p{L}\p{M}]/u.test(after);

// A text with a mark at the cuts that are a choice.
export function joined(segments, mark = "·") {
  return segments.reduce((text, segment) => text + (isChoice(text, segment) ? mark : "") + segment, "");
}

export function element(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

// Words, each with its place, its segments, and the probability of each cut between them: null where it is not known,
// undefined where there is no choice.
export function wordsOf(segments, posteriors) {
  const words = [];
  let place = 0;
  let word = null;
  for (const segment of segments) {
    for (const part of segment.split(/(\s+)/u).filter(Boolean)) {
      if (/^\s/u.test(part)) {
        words.push({ blank: part });
        word = null;
      } else {
        if (!word) words.push((word = { start: place, segments: [], cuts: [] }));
        else word.cuts.push(isChoice(word.segments.at(-1), part) ? (posteriors?.[place - 1] ?? null) : undefined);
        word.segments.push(part);
      }
      place += [...part].length;
    }
  }
  return words;
}

// What is said of a word's cuts: below it, and to those who hear the page.
export function describe(word) {
  return word.cuts
    .map((share, row) => [share, `${word.segments[row]} | ${word.segments[row + 1]}`])
    .filter(([share]) => share !== undefined)
    .map(([share, cut]) => (share === null ? cut : `${cut}  ${percent(share)}`))
    .join("\n");
}

export function spoken(word) {
  const whole = word.segments.join("");
  if (!word.cuts.some((share) => share !== undefined)) return whole;
  const said = (share) => (share === undefined ? "" : share === null ? ", cut" : `, cut ${percent(share)}`);
  return `${whole}, in segments: ${word.segments.map((segment, row) => segment + said(word.cuts[row])).join(", ")}`;
}

// What is said below a word stays on the screen.
function toWhereRoomIs(word) {
  const { left, right } = word.getBoundingClientRect();
  word.classList.toggle("at-right", left + right > innerWidth);
}

// Draws segments into a parent; `choose` is called with the place of a word that is clicked.
export function draw(parent, segments, posteriors, choose, kept = 0) {
  let hue = 0;
  for (const word of wordsOf(segments, posteriors)) {
    if (word.blank !== undefined) {
      parent.append(word.blank);
      continue;
    }
    const shown = element(choose ? "button" : "span", "word");
    if (choose) {
      shown.type = "button";
      shown.addEventListener("click", () => choose(word.start));
    } else {
      shown.tabIndex = 0;
      shown.setAttribute("role", "img");
    }
    shown.setAttribute("aria-label", spoken(word));
    if (describe(word)) shown.dataset.cuts = describe(word);
    for (const event of ["pointerenter", "focus"]) shown.addEventListener(event, () => toWhereRoomIs(shown));
    const end = word.start + [...word.segments.join("")].length;
    if (kept && end <= kept) shown.classList.add("kept");
    word.segments.forEach((segment, row) => {
      if (row && word.cuts[row - 1] !== undefined) {
        const cut = element("span", "cut");
        cut.style.setProperty("--p", word.cuts[row - 1] ?? 0);
        shown.append(cut);
      }
      shown.append(element("span", `segment hue-${hue++ % HUES}`, segment));
    });
    parent.append(shown);
  }
}
