import { Button, TextInput, Textarea } from "@mantine/core";
import { useRef, useState } from "react";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../api/client";
import { Failure } from "../../components/system/failure";
import { useToast } from "../../components/system/toasts";
import { useAction } from "../../query/action";
import { keys } from "../../query/keys";
import { isLabel } from "../launch/request";
import { tagOf } from "./expiry";
import { labelsOf, textOf } from "./labels";

type Allocation = Schemas["Allocation"];
type Base = Pick<Allocation, "name" | "labels" | "version">;
type Fields = Pick<Schemas["AllocationPatch"], "name" | "labels">;
type Change = { tag: string; body: Fields };

export const editable = new Set<string>(["requested", "provisioning", "active"]);

// Edit changes the name and the labels. The form has the version with which it was opened, so it does not overwrite a
// later change. The labels replace all previous ones.
export function Edit({ allocation: { id, name, labels, version } }: { allocation: Allocation }) {
  const t = useTranslations("allocation");
  const toast = useToast();
  const toggle = useRef<HTMLButtonElement>(null);
  const [base, setBase] = useState<Base>();
  const action = useAction(
    ({ tag, body }: Change, key) => unwrap(api.PATCH("/api/v1/allocations/{id}", { params: { path: { id }, header: { "If-Match": tag, "X-Idempotency-Key": key } }, body })),
    [keys.allocations, keys.overview],
  );
  const close = () => {
    setBase(undefined);
    action.reset();
    toggle.current?.focus();
  };
  const save = ({ version, ...former }: Base, body: Fields) =>
    action.start({ tag: tagOf(version), body }, (changed) => {
      toast(t("edited", { name: changed.name }), () => action.start({ tag: tagOf(changed.version), body: former }));
      close();
    });
  return (
    <section className="panel stack">
      <h2>{t("edit")}</h2>
      <Button ref={toggle} variant="default" aria-expanded={base !== undefined} onClick={() => (base === undefined ? setBase({ name, labels, version }) : close())}>
        {t("editOpen")}
      </Button>
      {base !== undefined && <Form base={base} pending={action.pending} save={(body) => save(base, body)} />}
      {action.error !== null && <Failure error={action.error} />}
    </section>
  );
}

type FormProps = { base: Base; pending: boolean; save: (body: Fields) => void };

function Form({ base, pending, save }: FormProps) {
  const t = useTranslations("allocation");
  const [name, setName] = useState(base.name);
  const [text, setText] = useState(textOf(base.labels));
  const labels = labelsOf(text);
  const body: Fields = { ...(name !== base.name && { name }), ...(text !== textOf(base.labels) && { labels }) };
  const complete = isLabel(name) && labels !== undefined && Object.keys(body).length > 0;
  return (
    <form
      className="stack"
      onSubmit={(event) => {
        event.preventDefault();
        if (complete) save(body);
      }}
    >
      <TextInput label={t("name")} maxLength={63} value={name} error={isLabel(name) ? undefined : t("nameWrong")} autoComplete="off" autoFocus onChange={(event) => setName(event.currentTarget.value)} />
      <Textarea label={t("labels")} description={t("labelsNote")} rows={3} value={text} error={labels === undefined ? t("labelsWrong") : undefined} onChange={(event) => setText(event.currentTarget.value)} />
      <Button type="submit" disabled={!complete} loading={pending}>
        {t("editAction")}
      </Button>
    </form>
  );
}
