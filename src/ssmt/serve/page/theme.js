// Light or dark: as the system has it, until somebody chooses.

const system = matchMedia("(prefers-color-scheme: dark)");

function apply() {
  const theme = localStorage.getItem("theme") ?? (system.matches ? "dark" : "light");
  document.documentElement.dataset.theme = theme;
  return theme;
}

apply();

export function startTheme(button) {
  const label = () => button.setAttribute("aria-label", `Switch to ${apply() === "dark" ? "light" : "dark"}`);
  button.addEventListener("click", () => {
    localStorage.setItem("theme", apply() === "dark" ? "light" : "dark");
    label();
  });
  system.addEventListener("change", label);
  label();
}
