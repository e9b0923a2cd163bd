// Dark or light: as the system has it, unless somebody chose.

const KEY = "lifebus.theme";
const THEMES = ["as the system", "light", "dark"];

/** Use the colours that were chosen. */
export function applyTheme() {
  const chosen = localStorage.getItem(KEY);
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  else delete document.documentElement.dataset.theme;
}

/** Choose the next colours, and return their name. */
export function nextTheme() {
  const next = THEMES[(THEMES.indexOf(localStorage.getItem(KEY) ?? THEMES[0]) + 1) % THEMES.length];
  localStorage.setItem(KEY, next);
  applyTheme();
  return next;
}
