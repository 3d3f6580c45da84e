import { Button, TextInput } from "@mantine/core";
import { useMemo, useState } from "react";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../api/client";
import { Command } from "../../components/system/copy";
import { type Column, CursorTable } from "../../components/system/cursor-table";
import { Failure } from "../../components/system/failure";
import { Remove } from "../../components/system/remove";
import { Section } from "../../components/system/section";
import { Empty } from "../../components/system/states";
import { Time } from "../../components/system/time";
import { useToast } from "../../components/system/toasts";
import { useAction } from "../../query/action";
import { keys } from "../../query/keys";
import type { Part } from "../../query/model";
import { useDraft } from "../../session/draft";
import { isPrivate, isPublic } from "./check";

type Key = Schemas["SshKey"];

const invalidates = [keys.access, keys.sshKeys, keys.overview];

export function SshKeys({ part }: { part: Part<Schemas["SshKeyList"]> }) {
  const t = useTranslations("keys");
  return (
    <Section title={t("ssh")} query={part}>
      {(first) => (
        <div className="stack">
          <List first={first} />
          <Form />
          <Command text="gpuaas keys list" label={t("copySsh")} />
        </div>
      )}
    </Section>
  );
}

function List({ first }: { first: Schemas["SshKeyList"] }) {
  const t = useTranslations("keys");
  const columns = useMemo(
    (): Column<Key>[] => [
      { id: "name", header: t("name"), cell: ({ name }) => name },
      { id: "fingerprint", header: t("fingerprint"), cell: ({ fingerprint }) => <code>{fingerprint}</code> },
      { id: "added", header: t("added"), cell: ({ created_at }) => <Time at={created_at} /> },
      { id: "remove", header: t("change"), cell: (key) => <Delete sshKey={key} /> },
    ],
    [t],
  );
  return (
    <CursorTable
      first={first}
      label={t("ssh")}
      queryKey={keys.sshKeys}
      load={(cursor) => unwrap(api.GET("/api/v1/ssh-keys", { params: { query: { cursor, limit: 50 } } }))}
      columns={columns}
      rowKey={({ id }) => id}
      empty={<Empty text={t("noSsh")} />}
    />
  );
}

function Delete({ sshKey: { id, name } }: { sshKey: Key }) {
  const t = useTranslations("keys");
  return (
    <Remove
      action={t("delete")}
      name={name}
      text={t("sshDeleteText")}
      done={t("deleted", { name })}
      run={(key) => unwrap(api.DELETE("/api/v1/ssh-keys/{id}", { params: { path: { id }, header: { "X-Idempotency-Key": key } } }))}
      invalidates={invalidates}
    />
  );
}

function Form() {
  const t = useTranslations("keys");
  const toast = useToast();
  const [draft, change, done] = useDraft("ssh-key", { name: "", publicKey: "" });
  const action = useAction(
    (body: Schemas["SshKeyRequest"], key) => unwrap(api.POST("/api/v1/ssh-keys", { params: { header: { "X-Idempotency-Key": key } }, body })),
    invalidates,
  );
  const [typed, setTyped] = useState(draft.publicKey);
  const text = typed.trim();
  const wrong = isPrivate(text) ? t("private") : text === "" || isPublic(text) ? undefined : t("publicWrong");
  const complete = draft.name.trim() !== "" && text !== "" && wrong === undefined;
  // Only a public key is kept in the storage of the browser. Another text may be a private key.
  const paste = (publicKey: string) => {
    setTyped(publicKey);
    change({ publicKey: isPublic(publicKey) && !isPrivate(publicKey) ? publicKey : "" });
  };
  return (
    <form
      className="stack"
      onSubmit={(event) => {
        event.preventDefault();
        if (!complete) return;
        action.start({ name: draft.name.trim(), public_key: text }, ({ name }) => {
          done();
          setTyped("");
          toast(t("sshAdded", { name }));
        });
      }}
    >
      <h3>{t("addSsh")}</h3>
      <TextInput label={t("name")} maxLength={63} required autoComplete="off" value={draft.name} onChange={(event) => change({ name: event.currentTarget.value })} />
      <TextInput label={t("publicKey")} description={t("publicNote")} required autoComplete="off" value={typed} error={wrong} onChange={(event) => paste(event.currentTarget.value)} />
      {action.error !== null && <Failure error={action.error} />}
      <Button type="submit" disabled={!complete} loading={action.pending}>
        {t("addSshAction")}
      </Button>
    </form>
  );
}
