import { type QueryKey, useMutation, useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import { ApiError } from "../api/error";
import { randomId } from "../api/fetch";

// A call without a definite response may have been done, so a repetition keeps its idempotency key.
export const unknownOutcome = (error: unknown) => !(error instanceof ApiError) || error.status === 0 || error.status >= 500 || error.status === 409 || error.status === 429;

// After these errors the screen has an old version of what the action changes.
const outdated = (error: unknown) => error instanceof ApiError && [404, 409, 412].includes(error.status);

// Done gets the output, and whether the screen of the action is still shown.
type Done<Output> = (output: Output, shown: boolean) => void;

// useAction runs one change. Each intended change has one idempotency key: a double click and a repetition after a lost
// response send the same key, a changed input sends a new one. rereads are the
// queries that are read again after an error of an outdated version. Without them, they are those of a success.
export function useAction<Input, Output>(run: (input: Input, key: string) => Promise<Output>, invalidates: readonly QueryKey[], rereads = invalidates) {
  const client = useQueryClient();
  const intent = useRef({ input: "", key: "" });
  const running = useRef(false);
  const shown = useRef(false);
  useEffect(() => {
    shown.current = true;
    return () => {
      shown.current = false;
    };
  }, []);
  const mutation = useMutation({
    mutationFn: ({ input }: { input: Input; done?: Done<Output> }) => {
      const text = JSON.stringify(input ?? null);
      if (intent.current.input !== text || intent.current.key === "") intent.current = { input: text, key: randomId() };
      return run(input, intent.current.key);
    },
    // The callbacks of mutate would not run after the user has left the screen. The action does not wait for the queries
    // that it invalidates.
    onSuccess: (output, { done }) => {
      invalidates.forEach((queryKey) => void client.invalidateQueries({ queryKey }));
      done?.(output, shown.current);
    },
    onError: (error) => {
      if (outdated(error)) rereads.forEach((queryKey) => void client.invalidateQueries({ queryKey }));
    },
    onSettled: (_, error) => {
      running.current = false;
      if (!error || !unknownOutcome(error)) intent.current.key = "";
    },
  });
  const start = (input: Input, done?: Done<Output>) => {
    if (running.current) return;
    running.current = true;
    mutation.mutate({ input, done });
  };
  return { start, error: mutation.error, pending: mutation.isPending, reset: mutation.reset };
}
