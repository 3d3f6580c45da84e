import { Button, Modal, TextInput } from "@mantine/core";
import { type ReactNode, useEffect, useState } from "react";
import { useTranslations } from "use-intl";
import { Failure } from "./failure";

type Props = {
  opened: boolean;
  title: string;
  // name is what the user must type. Without it, the button is enough.
  name?: string;
  // ready is whether the fields of the dialog are complete.
  ready?: boolean;
  action: string;
  pending: boolean;
  error: unknown;
  children: ReactNode;
  onConfirm: () => void;
  onClose: () => void;
};

// ConfirmByName asks for the name of what ends, where one is given. The dialog traps the focus and gives it back.
export function ConfirmByName({ opened, title, name, ready = true, action, pending, error, children, onConfirm, onClose }: Props) {
  const t = useTranslations("confirm");
  const [typed, setTyped] = useState("");
  const confirmed = ready && (name === undefined || typed === name);
  // A dialog also closes without its buttons, when the action is done. The next one starts unconfirmed.
  useEffect(() => {
    if (!opened) setTyped("");
  }, [opened]);
  return (
    <Modal opened={opened} onClose={onClose} title={title} closeButtonProps={{ "aria-label": t("cancel") }}>
      <form
        className="stack"
        onSubmit={(event) => {
          event.preventDefault();
          if (confirmed) onConfirm();
        }}
      >
        {children}
        {name !== undefined && <TextInput label={t("type", { name })} value={typed} onChange={(event) => setTyped(event.currentTarget.value)} autoComplete="off" data-autofocus />}
        {error !== null && <Failure error={error} />}
        <div className="row">
          <Button type="submit" color="red" disabled={!confirmed} loading={pending}>
            {action}
          </Button>
          <Button variant="default" onClick={onClose}>
            {t("cancel")}
          </Button>
        </div>
      </form>
    </Modal>
  );
}
