import { Button, TextInput } from "@mantine/core";
import { useMemo, useState } from "react";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../api/client";
import { Command } from "../../components/system/copy";
import { type Column, CursorTable } from "../../components/system/cursor-table";
import { Failure } from "../../components/system/failure";
import { Remove } from "../../components/system/remove";
import { Secret } from "../../components/system/secret";
import { Section } from "../../components/system/section";
import { Empty } from "../../components/system/states";
import { Time } from "../../components/system/time";
import { useToast } from "../../components/system/toasts";
import { useAction } from "../../query/action";
import { keys } from "../../query/keys";
import type { Part } from "../../query/model";
import { useDraft } from "../../session/draft";
import { secondsOf } from "./check";
import { Scopes, scopesOf } from "./scopes";

type Key = Schemas["ApiKey"];

const invalidates = [keys.access, keys.apiKeys];
const empty = { name: "", days: "90", scopes: [] as string[] };

export function ApiKeys({ part }: { part: Part<Schemas["ApiKeyList"]> }) {
  const t = useTranslations("keys");
  // The secret is outside of the section, which can fail while the secret is shown. A second key would replace the secret,
  // so the form waits.
  const [created, setCreated] = useState<Schemas["CreatedApiKey"]>();
  return (
    <>
      {created !== undefined && <Secret name={created.name} value={created.secret} close={() => setCreated(undefined)} />}
      <Section title={t("api")} query={part}>
        {(first) => (
          <div className="stack">
            <List first={first} />
            {created === undefined && <Form show={setCreated} />}
            <Command text="gpuaas api-key list" label={t("copyApi")} />
          </div>
        )}
      </Section>
    </>
  );
}

function List({ first }: { first: Schemas["ApiKeyList"] }) {
  const t = useTranslations("keys");
  const columns = useMemo(
    (): Column<Key>[] => [
      { id: "name", header: t("name"), cell: ({ name }) => name },
      { id: "scopes", header: t("scopes"), cell: (key) => (key.scopes.length === 0 ? t("allScopes") : key.scopes.join(", ")) },
      { id: "used", header: t("used"), cell: ({ last_used_at }) => (last_used_at === undefined ? t("never") : <Time at={last_used_at} />) },
      { id: "expires", header: t("expires"), cell: ({ expires_at }) => (expires_at === undefined ? t("noExpiry") : <Time at={expires_at} />) },
      { id: "revoke", header: t("change"), cell: (key) => <Revoke apiKey={key} /> },
    ],
    [t],
  );
  return (
    <CursorTable
      first={first}
      label={t("api")}
      queryKey={keys.apiKeys}
      load={(cursor) => unwrap(api.GET("/api/v1/api-keys", { params: { query: { cursor, limit: 50 } } }))}
      columns={columns}
      rowKey={({ id }) => id}
      empty={<Empty text={t("noApi")} />}
    />
  );
}

function Revoke({ apiKey: { id, name } }: { apiKey: Key }) {
  const t = useTranslations("keys");
  return (
    <Remove
      action={t("revoke")}
      name={name}
      text={t("revokeText")}
      done={t("revoked", { name })}
      run={(key) => unwrap(api.DELETE("/api/v1/api-keys/{id}", { params: { path: { id }, header: { "X-Idempotency-Key": key } } }))}
      invalidates={invalidates}
    />
  );
}

function Form({ show }: { show: (key: Schemas["CreatedApiKey"]) => void }) {
  const t = useTranslations("keys");
  const toast = useToast();
  const [draft, change, done] = useDraft("api-key", empty);
  const action = useAction(
    (body: Schemas["ApiKeyRequest"], key) => unwrap(api.POST("/api/v1/api-keys", { params: { header: { "X-Idempotency-Key": key } }, body })),
    invalidates,
  );
  const seconds = secondsOf(draft.days);
  const complete = draft.name.trim() !== "" && !Number.isNaN(seconds);
  const create = () =>
    action.start({ name: draft.name.trim(), scopes: scopesOf(draft.scopes), ...(seconds !== undefined && { ttl_seconds: seconds }) }, (key, shown) => {
      done();
      show(key);
      toast(shown ? t("apiCreated", { name: key.name }) : t("apiUnseen", { name: key.name }));
    });
  return (
    <form
      className="stack"
      onSubmit={(event) => {
        event.preventDefault();
        if (complete) create();
      }}
    >
      <h3>{t("addApi")}</h3>
      <TextInput label={t("name")} maxLength={63} required autoComplete="off" value={draft.name} onChange={(event) => change({ name: event.currentTarget.value })} />
      <TextInput
        label={t("days")}
        description={t("daysNote")}
        inputMode="numeric"
        value={draft.days}
        error={Number.isNaN(seconds) ? t("daysWrong") : undefined}
        onChange={(event) => change({ days: event.currentTarget.value })}
      />
      <Scopes legend={t("scopesNote")} chosen={draft.scopes} choose={(scopes) => change({ scopes })} />
      {action.error !== null && <Failure error={action.error} />}
      <Button type="submit" disabled={!complete} loading={action.pending}>
        {t("addApiAction")}
      </Button>
    </form>
  );
}
