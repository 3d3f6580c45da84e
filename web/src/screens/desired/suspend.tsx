import type { QueryKey } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslations } from "use-intl";
import type { Schemas } from "../../api/client";
import { serverNow } from "../../api/clock";
import { Reasoned } from "../../components/system/reasoned";
import { When, isoOf } from "../../components/system/when";

type Props = { name: string; text: string; run: (body: Schemas["Suspend"], key: string) => Promise<unknown>; invalidates: readonly QueryKey[] };

// isLater accepts an empty field, too: without a time the suspension has no end.
export const isLater = (local: string) => local === "" || Date.parse(isoOf(local) ?? "") > serverNow();

// Suspend stops the work for an object or a source, until a time or until it is resumed.
export function Suspend({ name, text, run, invalidates }: Props) {
  const t = useTranslations("desired");
  const [until, setUntil] = useState("");
  return (
    <Reasoned
      action={t("suspend")}
      name={name}
      text={text}
      done={t("isSuspended", { name })}
      least={3}
      most={256}
      input={isLater(until) ? { until: isoOf(until) } : undefined}
      onOpen={() => setUntil("")}
      run={run}
      invalidates={invalidates}
    >
      <When label={t("ends")} note={t("endsNote")} value={until} change={setUntil} error={isLater(until) ? undefined : t("future")} />
    </Reasoned>
  );
}
