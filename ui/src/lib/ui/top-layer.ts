/** Shows a `popover` above everything, modal dialogs included, where no scrolling ancestor clips it. */
export function inTopLayer(element: HTMLElement) {
  element.showPopover();
}
