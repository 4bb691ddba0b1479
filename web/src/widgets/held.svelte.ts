/** What a widget shows at the moment: the traits of its Python object, and what the notebook around it looks like. */

import { look } from "../lib/theme.svelte";
import { speech } from "../lib/words.svelte";
import type { Kind, Model } from "./model";
import { followTheme, languageAround, type Theme } from "./surroundings";

export class Held {
  kind = $state<Kind>("table");
  data = $state.raw<Record<string, unknown>>({});
  language = $state<"en" | "pt">("en");
  theme = $state<Theme>("light");
  #around: Theme = "light";
  #ends: (() => void)[] = [];

  constructor(readonly model: Model) {
    const read = () => {
      this.kind = model.get("kind") as Kind;
      this.data = (model.get("data") ?? {}) as Record<string, unknown>;
      const [language, theme] = [model.get("language"), model.get("theme")];
      this.language = language === "en" || language === "pt" ? language : languageAround();
      this.theme = theme === "light" || theme === "dark" ? theme : this.#around;
      speech.fixed = this.language;
      look.fixed = this.theme;
    };
    for (const name of ["kind", "data", "language", "theme"]) {
      model.on(`change:${name}`, read);
      this.#ends.push(() => model.off(`change:${name}`, read));
    }
    this.#ends.push(
      followTheme((theme) => {
        this.#around = theme;
        read();
      }),
    );
  }

  end(): void {
    this.#ends.forEach((each) => each());
  }
}
