import type { QueryKey } from "@tanstack/react-query";
import { useTranslations } from "use-intl";
import type { Schemas } from "../../api/client";
import { serverNow } from "../../api/clock";
import { Reasoned } from "../../components/system/reasoned";
import { When, isoOf } from "../../components/system/when";

type Props = { name: string; id?: string; text: string; run: (body: Schemas["Suspend"], key: string) => Promise<unknown>; invalidates: readonly QueryKey[] };

// isLater accepts an empty field, too: without a time the suspension has no end.
export const isLater = (local: string) => local === "" || Date.parse(isoOf(local) ?? "") > serverNow();

// Suspend stops the work for an object or a source, until a time or until it is resumed.
export function Suspend({ name, id, text, run, invalidates }: Props) {
  const t = useTranslations("desired");
  return (
    <Reasoned
      action={t("suspend")}
      name={name}
      id={id}
      text={text}
      done={t("isSuspended", { name })}
      least={3}
      most={256}
      fields={() => ({ until: "" })}
      input={({ until }) => (isLater(until) ? { until: isoOf(until) } : undefined)}
      run={run}
      invalidates={invalidates}
    >
      {({ until }, change) => <When label={t("ends")} note={t("endsNote")} value={until} change={(until) => change({ until })} error={isLater(until) ? undefined : t("future")} />}
    </Reasoned>
  );
}
