import { Button, NativeSelect } from "@mantine/core";
import type { QueryKey } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { useTranslations } from "use-intl";
import type { Schemas } from "../../api/client";
import { Failure } from "../../components/system/failure";
import { useToast } from "../../components/system/toasts";
import { useAction } from "../../query/action";

type Props<Role extends string> = {
  member: Schemas["Member"];
  roles: Role[];
  run: (role: Role, key: string) => Promise<unknown>;
  invalidates: readonly QueryKey[];
};

// RoleOf changes the role of a member after a button confirms the choice: a select changes on each key press. The change can
// be undone.
export function RoleOf<Role extends string>({ member: { name, email, role }, roles, run, invalidates }: Props<Role>) {
  const t = useTranslations("members");
  const toast = useToast();
  const action = useAction((next: Role, key) => run(next, key), invalidates);
  // saved is shown until the list is read again.
  const [saved, setSaved] = useState<string>();
  const [chosen, setChosen] = useState<string>();
  useEffect(() => {
    setSaved(undefined);
    setChosen(undefined);
  }, [role]);
  const current = saved ?? role;
  const next = chosen ?? current;
  const save = (to: string, done?: () => void) =>
    action.start(to as Role, () => {
      setSaved(to);
      setChosen(undefined);
      done?.();
    });
  const change = () => save(next, () => toast(t("changed", { name, role: next }), () => save(current)));
  // A role of a newer server stays visible.
  const known = (roles as string[]).includes(role);
  return (
    <>
      <NativeSelect
        size="xs"
        aria-label={t("roleOf", { name, email })}
        value={next}
        disabled={action.pending}
        onChange={(event) => setChosen(event.currentTarget.value)}
        data={known ? roles : [role, ...roles]}
      />
      {next !== current && (
        <Button size="compact-xs" aria-label={t("changeTo", { name, email, role: next })} loading={action.pending} onClick={change}>
          {t("change")}
        </Button>
      )}
      {action.error !== null && <Failure error={action.error} />}
    </>
  );
}
