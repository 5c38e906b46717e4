/** Shows a `popover` in the top layer, above modal dialogs and unclipped. */
export function inTopLayer(element: HTMLElement) {
  element.showPopover();
}
