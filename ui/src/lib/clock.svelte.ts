// Shared clock for relative times and countdowns; stopped while the page is hidden.
class Clock {
  now = $state(Date.now());
}

export const clock = new Clock();
setInterval(() => {
  if (!document.hidden) clock.now = Date.now();
}, 1000);
