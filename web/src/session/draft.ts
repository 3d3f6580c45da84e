import { useEffect, useState } from "react";
import { useSession } from "./session";
import { forget, load, store } from "./storage";

const place = () => sessionStorage;

// useKey is the name of a draft. It contains the user: the next user of this tab can sign in without a sign-out of this one.
function useKey(name: string): string {
  const { user } = useSession().me;
  return `draft.${user?.id ?? ""}.${name}`;
}

// useDraft keeps the input of a form over a sign-in and a reload, until the form is done.
export function useDraft<T extends object>(name: string, empty: T): [T, (change: Partial<T>) => void, () => void] {
  const key = useKey(name);
  const [draft, setDraft] = useState<T>(() => ({ ...empty, ...draftOf(key) }));
  const change = (fields: Partial<T>) => {
    const next = { ...draft, ...fields };
    setDraft(next);
    store(key, JSON.stringify(next), place);
  };
  const done = () => {
    setDraft(empty);
    store(key, "", place);
  };
  return [draft, change, done];
}

// useReturn returns the input that a dialog had before a sign-in, and the function that keeps an input for the time after
// the next one.
export function useReturn<T extends object>(name: string): [T | undefined, (input: T | undefined) => void] {
  const key = useKey(name);
  const [before] = useState(() => draftOf(key) as T | undefined);
  return [before, (input) => void store(key, input === undefined ? "" : JSON.stringify(input), place)];
}

// useKeepWhile keeps the input of a dialog while its change waits for a sign-in. The sign-in unloads the page without an
// unmount. A user who goes to another screen instead has given up the change.
export function useKeepWhile<T extends object>(waits: boolean, input: T, keep: (input: T | undefined) => void) {
  useEffect(() => {
    keep(waits ? input : undefined);
    return () => keep(undefined);
  }, [waits, JSON.stringify(input)]);
}

// forgetDrafts removes the input of all forms. The next user of this tab is another one.
export const forgetDrafts = () => forget("draft.", place);

function draftOf(key: string): object | undefined {
  try {
    const value: unknown = JSON.parse(load(key, place));
    return typeof value === "object" && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}
