/** A click on a link that means to go there, here; with a key or another button a browser does something else with it. */
export const isPlain = (event: MouseEvent): boolean =>
  event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey;
