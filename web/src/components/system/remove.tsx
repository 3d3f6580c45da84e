import { Button } from "@mantine/core";
import { useEffect, useRef, useState } from "react";
import { useTranslations } from "use-intl";
import type { QueryKey } from "@tanstack/react-query";
import { useAction } from "../../query/action";
import { ConfirmByName } from "./confirm";
import { useToast } from "./toasts";

type Props = {
  // action names the change on its buttons, name is what changes.
  action: string;
  name: string;
  text: string;
  done: string;
  // Without typing, a dialog confirms what can be done again.
  typed?: boolean;
  run: (key: string) => Promise<unknown>;
  invalidates: readonly QueryKey[];
  // rereads are as in useAction.
  rereads?: readonly QueryKey[];
  after?: () => void;
};

// Remove is the button of a change that takes something away, and the dialog that confirms it.
export function Remove({ action, name, text, done, typed = true, run, invalidates, rereads, after }: Props) {
  const t = useTranslations("confirm");
  const toast = useToast();
  const [opened, setOpened] = useState(false);
  const removed = useRef(false);
  const removal = useAction((_: null, key) => run(key), invalidates, rereads);
  // The row of what was removed leaves the page with this button, which had the focus.
  useEffect(() => () => void (removed.current && document.querySelector("h1")?.focus()), []);
  const confirm = () =>
    removal.start(null, (_, shown) => {
      removed.current = true;
      setOpened(false);
      toast(done);
      if (shown) after?.();
    });
  const close = () => {
    setOpened(false);
    removal.reset();
  };
  const title = t("title", { action, name });
  return (
    <>
      <Button variant="default" size="compact-sm" aria-label={title} onClick={() => setOpened(true)}>
        {action}
      </Button>
      <ConfirmByName opened={opened} title={title} name={typed ? name : undefined} action={action} pending={removal.pending} error={removal.error} onConfirm={confirm} onClose={close}>
        <p>{text}</p>
      </ConfirmByName>
    </>
  );
}
