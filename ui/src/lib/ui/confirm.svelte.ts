export interface Question {
  title: string;
  text: string;
  /** Label of the button: a verb, never “OK”. */
  action: string;
  danger?: boolean;
}

class Confirmation {
  question = $state<Question | null>(null);
  answer: (yes: boolean) => void = () => {};
}

export const confirmation = new Confirmation();

/** Delay before a queued dialog opens, so that a press meant for the previous one does not confirm it. */
const QUEUED_DIALOG_DELAY_MS = 300;
let asked = 0;
let line = Promise.resolve();

/** Asks for confirmation: `if (await confirm({ … })) …` */
export async function confirm(question: Question): Promise<boolean> {
  const before = line;
  let end = () => {};
  line = new Promise((resolve) => (end = resolve));
  asked += 1;
  if (asked > 1) {
    await before;
    await new Promise((resolve) => setTimeout(resolve, QUEUED_DIALOG_DELAY_MS));
  }
  const answer = await ask(question);
  asked -= 1;
  end();
  return answer;
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
