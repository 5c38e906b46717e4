// One clock for everything on the page that counts; it stands still while nobody looks.
class Clock {
  now = $state(Date.now());
}

export const clock = new Clock();
setInterval(() => {
  if (!document.hidden) clock.now = Date.now();
}, 1000);
