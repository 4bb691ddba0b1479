/** What the interactive figures are about, as the address has it. */

import { address } from "../../lib/address.svelte";
import { shelf } from "../../lib/shelf.svelte";

/** The chosen model, text and token, with what else is chosen; null where there is no model or no text yet. */
export function subject<More extends object>(more: More) {
  const [model, text] = [shelf.model?.id, shelf.text];
  return model && text ? { model, text, position: address.number("position"), ...more } : null;
}

/** With one of its heads. */
export const headAsked = () => subject({ head: address.get("head") });
