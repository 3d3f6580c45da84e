import { Button, NativeSelect, TextInput } from "@mantine/core";
import { useMemo, useState } from "react";
import { useTranslations } from "use-intl";
import type { Schemas } from "../../api/client";
import { type Column, Rows } from "../../components/system/cursor-table";
import { Failure } from "../../components/system/failure";
import { useToast } from "../../components/system/toasts";
import { useWords } from "../../components/system/words";
import { useAction } from "../../query/action";
import { keys } from "../../query/keys";
import { draftOf, keyOf, writeOf } from "./choices";

type Preferences = Schemas["NotificationPreferences"];
type Kind = Schemas["NotificationKind"];
type Scope = "user" | "tenant";
type Put = (body: Schemas["NotificationPreferencesWrite"], version: string, key: string) => Promise<unknown>;

const values: Schemas["NotificationValue"][] = ["off", "now", "hourly", "daily"];

// Preferences edits the choices of a user, or the defaults of a tenant, in the version on the screen.
export function PreferencesForm({ preferences, scope, put }: { preferences: Preferences; scope: Scope; put: Put }) {
  const t = useTranslations("preferences");
  const toast = useToast();
  const [draft, setDraft] = useState(() => draftOf(preferences, scope));
  const action = useAction(({ body, version }: { body: Schemas["NotificationPreferencesWrite"]; version: string }, key) => put(body, version, key), [keys.preferences]);
  const body = writeOf(draft);
  const choose = (key: string, value: string) => setDraft((old) => ({ ...old, choices: { ...old.choices, [key]: value } }));
  return (
    <form
      className="stack"
      onSubmit={(event) => {
        event.preventDefault();
        if (body !== undefined) action.start({ body, version: preferences.version }, () => toast(t("saved")));
      }}
    >
      <Rows label={t(scope === "user" ? "own" : "tenant")} columns={useColumns(scope, draft.choices, choose)} rows={preferences.kinds} rowKey={({ kind }) => kind} />
      <fieldset className="row">
        <legend>{t("quiet")}</legend>
        <TextInput type="time" label={t("start")} value={draft.start} onChange={(event) => setDraft({ ...draft, start: event.currentTarget.value })} />
        <TextInput type="time" label={t("end")} value={draft.end} error={body === undefined ? t("quietNote") : undefined} onChange={(event) => setDraft({ ...draft, end: event.currentTarget.value })} />
        <TextInput label={t("zone")} description={t("zoneNote")} maxLength={64} value={draft.zone} onChange={(event) => setDraft({ ...draft, zone: event.currentTarget.value })} />
      </fieldset>
      <p>{t("quietNote")}</p>
      {action.error !== null && <Failure error={action.error} />}
      <Button type="submit" disabled={body === undefined} loading={action.pending}>
        {t("save")}
      </Button>
    </form>
  );
}

function useColumns(scope: Scope, choices: Record<string, string>, choose: (key: string, value: string) => void): Column<Kind>[] {
  const t = useTranslations("preferences");
  return useMemo(() => {
    const cell = (channel: Schemas["NotificationChannel"], label: string) => (kind: Kind) => <Choice kind={kind} channel={channel} label={label} scope={scope} choices={choices} choose={choose} />;
    return [
      { id: "kind", header: t("kind"), cell: ({ title, enabled }) => <>{title}{!enabled && <p>{t("notEnabled")}</p>}</> },
      { id: "audience", header: t("audience"), cell: ({ audience }) => audience },
      { id: "in_app", header: t("inApp"), cell: cell("in_app", t("inApp")) },
      { id: "email", header: t("email"), cell: cell("email", t("email")) },
    ];
  }, [t, scope, choices]);
}

type ChoiceProps = { kind: Kind; channel: Schemas["NotificationChannel"]; label: string; scope: Scope; choices: Record<string, string>; choose: (key: string, value: string) => void };

// Choice is the value of a kind on a channel, or the default that it follows. A kind that is not mutable is never off in the
// portal, and the portal has no digests.
function Choice({ kind, channel, label, scope, choices, choose }: ChoiceProps) {
  const t = useTranslations("preferences");
  const word = useWords();
  const found = kind.channels.find((each) => each.channel === channel);
  if (found === undefined) return null;
  const key = keyOf(kind.kind, channel);
  const offered = channel === "email" ? values : values.slice(0, 2).filter((value) => value !== "off" || kind.mutable);
  const byDefault = found.source === scope ? word("inherited") : t("byDefault", { value: word(found.value), source: t(found.source === "tenant" ? "fromTenant" : "fromDefault") });
  return (
    <NativeSelect
      size="xs"
      aria-label={t("choice", { channel: label, kind: kind.title })}
      value={choices[key] ?? ""}
      onChange={(event) => choose(key, event.currentTarget.value)}
      data={[{ value: "", label: byDefault }, ...offered.map((value) => ({ value, label: word(value) }))]}
    />
  );
}
