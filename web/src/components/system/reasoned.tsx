import { Button, TextInput } from "@mantine/core";
import type { QueryKey } from "@tanstack/react-query";
import { type ReactNode, useEffect, useRef, useState } from "react";
import { useTranslations } from "use-intl";
import { useAction } from "../../query/action";
import { useKeepWhile, useReturn } from "../../session/draft";
import { needsSignIn } from "../../session/signin";
import { ConfirmByName } from "./confirm";
import { useToast } from "./toasts";

type Props<Fields, Input> = {
  // action names the change on its buttons, name is what changes.
  action: string;
  name: string;
  // id distinguishes the dialogs of a screen that have the same action and name.
  id?: string;
  text: string;
  done: string;
  // The reason has at least and at most so many characters. With least 0 it can be empty.
  least: number;
  most: number;
  // With typed, the user types the name, because the change ends something.
  typed?: boolean;
  // fields are the values with which the other fields of the dialog open, which children show.
  fields?: () => Fields;
  children?: (fields: Fields, change: (part: Partial<Fields>) => void) => ReactNode;
  // input is what the change sends with the reason. Without it, the fields are not complete.
  input: (fields: Fields) => Input | undefined;
  run: (change: Input & { reason: string }, key: string) => Promise<unknown>;
  invalidates: readonly QueryKey[];
};

type Draft = { reason?: string; values?: object };

// Reasoned is the button of a change that an operator gives a reason for, and the dialog that asks for it. A dialog whose
// change needs a sign-in opens again after it, with the same input.
export function Reasoned<Fields extends object, Input extends object>(props: Props<Fields, Input>) {
  const { action, name, id = "", text, done, least, most, typed = false, fields = () => ({}) as Fields, children, input, run, invalidates } = props;
  const t = useTranslations("confirm");
  const toast = useToast();
  const title = t("title", { action, name });
  const change = useAction(run, invalidates);
  const [before, keep] = useReturn<Draft>(`${location.pathname}.${title}.${id}`);
  const [opened, setOpened] = useState(before !== undefined);
  const [reason, setReason] = useState(before?.reason ?? "");
  const [values, setValues] = useState<Fields>(() => ({ ...fields(), ...before?.values }));
  useKeepWhile(needsSignIn(change.error), { reason, values }, keep);
  const finished = useRef(false);
  // A change can take the row with this button, which had the focus, off the page.
  useEffect(() => () => void (finished.current && document.querySelector("h1")?.focus()), []);
  const given = reason.trim();
  const complete = input(values);
  const open = () => {
    setValues(fields());
    setOpened(true);
  };
  const close = () => {
    setOpened(false);
    change.reset();
  };
  const confirm = () => {
    if (complete === undefined) return;
    change.start({ ...complete, reason: given }, () => {
      finished.current = true;
      setOpened(false);
      setReason("");
      toast(done);
    });
  };
  return (
    <>
      <Button variant="default" size="compact-sm" aria-label={title} onClick={open}>
        {action}
      </Button>
      <ConfirmByName
        opened={opened}
        title={title}
        name={typed ? name : undefined}
        ready={complete !== undefined && given.length >= least}
        action={action}
        pending={change.pending}
        error={change.error}
        onConfirm={confirm}
        onClose={close}
      >
        <p>{text}</p>
        {children?.(values, (part) => setValues((old) => ({ ...old, ...part })))}
        <TextInput
          label={t("reason")}
          description={least === 0 ? t("reasonOptional") : t("reasonNote", { least })}
          maxLength={most}
          autoComplete="off"
          value={reason}
          onChange={(event) => setReason(event.currentTarget.value)}
        />
      </ConfirmByName>
    </>
  );
}
