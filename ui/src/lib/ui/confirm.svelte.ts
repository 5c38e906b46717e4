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

/** Asks before what cannot be undone: `if (await confirm({ … })) …` */
export function confirm(question: Question): Promise<boolean> {
  confirmation.answer(false);
  confirmation.question = question;
  return new Promise((resolve) => {
    confirmation.answer = (yes) => {
      confirmation.question = null;
      confirmation.answer = () => {};
      resolve(yes);
    };
  });
}
