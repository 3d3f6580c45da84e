import { Button, TextInput } from "@mantine/core";
import type { QueryKey } from "@tanstack/react-query";
import { type ReactNode, useEffect, useRef, useState } from "react";
import { useTranslations } from "use-intl";
import { useAction } from "../../query/action";
import { ConfirmByName } from "./confirm";
import { useToast } from "./toasts";

type Props<Input> = {
  // action names the change on its buttons, name is what changes.
  action: string;
  name: string;
  text: string;
  done: string;
  // The reason has at least and at most so many characters. With least 0 it can be empty.
  least: number;
  most: number;
  // With typed, the user types the name, because the change ends something.
  typed?: boolean;
  // input has the other fields of the dialog, which are children. Without it they are not complete.
  input: Input | undefined;
  children?: ReactNode;
  onOpen?: () => void;
  run: (change: Input & { reason: string }, key: string) => Promise<unknown>;
  invalidates: readonly QueryKey[];
};

// Reasoned is the button of a change that an operator gives a reason for, and the dialog that asks for it.
export function Reasoned<Input extends object>({ action, name, text, done, least, most, typed = false, input, children, onOpen, run, invalidates }: Props<Input>) {
  const t = useTranslations("confirm");
  const toast = useToast();
  const [opened, setOpened] = useState(false);
  const [reason, setReason] = useState("");
  const finished = useRef(false);
  const change = useAction(run, invalidates);
  // A change can take the row with this button, which had the focus, off the page.
  useEffect(() => () => void (finished.current && document.querySelector("h1")?.focus()), []);
  const given = reason.trim();
  const open = () => {
    onOpen?.();
    setOpened(true);
  };
  const close = () => {
    setOpened(false);
    change.reset();
  };
  const confirm = () => {
    if (input === undefined) return;
    change.start({ ...input, reason: given }, () => {
      finished.current = true;
      setOpened(false);
      setReason("");
      toast(done);
    });
  };
  const title = t("title", { action, name });
  const ready = input !== undefined && given.length >= least;
  return (
    <>
      <Button variant="default" size="compact-sm" aria-label={title} onClick={open}>
        {action}
      </Button>
      <ConfirmByName opened={opened} title={title} name={typed ? name : undefined} ready={ready} action={action} pending={change.pending} error={change.error} onConfirm={confirm} onClose={close}>
        <p>{text}</p>
        {children}
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
