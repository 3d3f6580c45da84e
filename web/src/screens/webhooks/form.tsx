import { Textarea, TextInput } from "@mantine/core";
import { useTranslations } from "use-intl";
import { isWebAddress } from "../billing/address";
import { isLabel } from "../launch/request";

export type Draft = { name: string; url: string; events: string };

// eventsOf are the patterns of a field, one per line.
export const eventsOf = (text: string) => [...new Set(text.split(/\s+/).filter((line) => line !== ""))];

export const isComplete = ({ name, url, events }: Draft) => isLabel(name) && isWebAddress(url) && eventsOf(events).length > 0;

// Fields are what a webhook is created with and changed to. The server checks address and patterns.
export function Fields({ draft, change }: { draft: Draft; change: (part: Partial<Draft>) => void }) {
  const t = useTranslations("webhooks");
  const { name, url, events } = draft;
  return (
    <>
      <TextInput
        label={t("name")}
        maxLength={63}
        required
        autoComplete="off"
        value={name}
        error={name === "" || isLabel(name) ? undefined : t("nameWrong")}
        onChange={(event) => change({ name: event.currentTarget.value })}
      />
      <TextInput
        label={t("url")}
        description={t("urlNote")}
        inputMode="url"
        maxLength={2_048}
        required
        value={url}
        error={url === "" || isWebAddress(url) ? undefined : t("urlWrong")}
        onChange={(event) => change({ url: event.currentTarget.value.trim() })}
      />
      <Textarea label={t("events")} description={t("eventsNote")} maxLength={3_200} required rows={3} value={events} onChange={(event) => change({ events: event.currentTarget.value })} />
    </>
  );
}
