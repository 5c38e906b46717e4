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

/** Before a question that waited for another one: nobody is to answer it with the press that was meant for that. */
const PAUSE_MS = 300;
let asked = 0;
let line = Promise.resolve();

/** Asks before what cannot be undone: `if (await confirm({ … })) …` */
export async function confirm(question: Question): Promise<boolean> {
  const before = line;
  let end = () => {};
  line = new Promise((resolve) => (end = resolve));
  asked += 1;
  if (asked > 1) {
    await before;
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
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
