import { useState } from "react";
import { forget, load, store } from "./storage";

// useDraft keeps the input of a form over a sign-in and a reload, until the form is done.
export function useDraft<T extends object>(name: string, empty: T): [T, (change: Partial<T>) => void, () => void] {
  const place = () => sessionStorage;
  const [draft, setDraft] = useState<T>(() => ({ ...empty, ...parse(load(`draft.${name}`, place)) }));
  const change = (fields: Partial<T>) => {
    const next = { ...draft, ...fields };
    setDraft(next);
    store(`draft.${name}`, JSON.stringify(next), place);
  };
  const done = () => {
    setDraft(empty);
    store(`draft.${name}`, "", place);
  };
  return [draft, change, done];
}

// forgetDrafts removes the input of all forms. The next user of this tab is another one.
export const forgetDrafts = () => forget("draft.", () => sessionStorage);

function parse(text: string): object {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? value : {};
  } catch {
    return {};
  }
}
