/** The drawings of the studio in notebooks: one module that anywidget loads. */

import { mount, unmount } from "svelte";
import "../lib/look.css";
import "./widget.css";
import { asking } from "./asking";
import { Held } from "./held.svelte";
import type { Model } from "./model";
import Widget from "./Widget.svelte";

/** Draw a model's data into an element; returns how to take it away again. */
function render({ model, el }: { model: Model; el: HTMLElement }): () => void {
  const held = new Held(model);
  const { ask, end } = asking(model);
  const app = mount(Widget, { target: el, props: { held, ask } });
  return () => {
    void unmount(app);
    end();
    held.end();
  };
}

export default { render };
