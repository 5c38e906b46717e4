export interface Question {
  title: string;
  text: string;
  /** What the button says: the deed, never “OK”. */
  action: string;
  danger?: boolean;
}

class Confirmation {
  question = $state<Question | null>(null);
  answer: (yes: boolean) => void = () => {};
}

export const confirmation = new Confirmation();

/** Between two questions, so that nobody answers the second one with the press that was meant for the first. */
const PAUSE_MS = 300;
let line: Promise<unknown> = Promise.resolve();

/** Asks before what cannot be undone: `if (await confirm({ … })) …` */
export function confirm(question: Question): Promise<boolean> {
  const answered = line.then(() => ask(question));
  line = answered.then(() => new Promise((resolve) => setTimeout(resolve, PAUSE_MS)));
  return answered;
}

function ask(question: Question): Promise<boolean> {
  confirmation.question = question;
  return new Promise((resolve) => {
    confirmation.answer = (yes) => {
      confirmation.question = null;
      confirmation.answer = () => {};
      resolve(yes);
    };
  });
}
