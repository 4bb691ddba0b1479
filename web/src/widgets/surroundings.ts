/** Light or dark, as the notebook around a widget is: each kind of notebook says it in its own way. */

export type Theme = "light" | "dark";

/** JupyterLab and Notebook 7, VS Code, Colab, marimo; else what the system prefers. */
function themeAround(page: Document = document): Theme {
  const { documentElement: root, body } = page;
  const jupyter = body.dataset.jpThemeLight;
  if (jupyter) return jupyter === "false" ? "dark" : "light";
  const code = body.dataset.vscodeThemeKind ?? [...body.classList].find((name) => name.startsWith("vscode-"));
  if (code) return /dark|high-contrast(?!-light)/.test(code) ? "dark" : "light";
  for (const element of [body, root]) {
    const said = element.getAttribute("theme") ?? element.dataset.theme;
    if (said === "dark" || said === "light") return said;
    if (element.classList.contains("dark")) return "dark";
    if (element.classList.contains("light")) return "light";
  }
  return page.defaultView?.matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

/** Told now and whenever it changes; call the result to hear no more. */
export function followTheme(tell: (theme: Theme) => void): () => void {
  const again = () => tell(themeAround());
  const system = matchMedia("(prefers-color-scheme: dark)");
  const watch = new MutationObserver(again);
  for (const element of [document.documentElement, document.body]) watch.observe(element, { attributes: true });
  system.addEventListener("change", again);
  again();
  return () => {
    watch.disconnect();
    system.removeEventListener("change", again);
  };
}

/** The language of a widget that was not told any: the browser's, if we speak it. */
export const languageAround = (): "en" | "pt" => (navigator.language.toLowerCase().startsWith("pt") ? "pt" : "en");
