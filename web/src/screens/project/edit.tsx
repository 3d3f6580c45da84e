import { Button, TextInput } from "@mantine/core";
import { useRef, useState } from "react";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../api/client";
import { Failure } from "../../components/system/failure";
import { useToast } from "../../components/system/toasts";
import { useAction } from "../../query/action";
import { keys } from "../../query/keys";
import { isLabel } from "../launch/request";

type Project = Schemas["Project"];
type Base = Pick<Project, "name" | "description" | "version">;
type Change = { version: number; body: Schemas["ProjectPatch"] };

// Edit changes the name and the description, in the version with which the form was opened.
export function Edit({ project: { id, name, description, version } }: { project: Project }) {
  const t = useTranslations("projects");
  const toast = useToast();
  const toggle = useRef<HTMLButtonElement>(null);
  const [base, setBase] = useState<Base>();
  const action = useAction(
    ({ version, body }: Change, key) =>
      unwrap(api.PATCH("/api/v1/projects/{project_id}", { params: { path: { project_id: id }, header: { "If-Match": `"${version}"`, "X-Idempotency-Key": key } }, body })),
    [keys.projects, keys.projectList, keys.me],
  );
  const close = () => {
    setBase(undefined);
    action.reset();
    toggle.current?.focus();
  };
  const save = ({ version, ...former }: Base, body: Schemas["ProjectPatch"]) =>
    action.start({ version, body }, (changed) => {
      toast(t("edited", { name: changed.name }), () => action.start({ version: changed.version, body: former }));
      close();
    });
  return (
    <section className="panel stack">
      <h2>{t("edit")}</h2>
      <Button ref={toggle} variant="default" aria-expanded={base !== undefined} onClick={() => (base === undefined ? setBase({ name, description, version }) : close())}>
        {t("editOpen")}
      </Button>
      {base !== undefined && <Form base={base} pending={action.pending} save={(body) => save(base, body)} />}
      {action.error !== null && <Failure error={action.error} />}
    </section>
  );
}

type FormProps = { base: Base; pending: boolean; save: (body: Schemas["ProjectPatch"]) => void };

function Form({ base, pending, save }: FormProps) {
  const t = useTranslations("projects");
  const [name, setName] = useState(base.name);
  const [description, setDescription] = useState(base.description);
  const body = { ...(name !== base.name && { name }), ...(description !== base.description && { description }) };
  const complete = isLabel(name) && Object.keys(body).length > 0;
  return (
    <form
      className="stack"
      onSubmit={(event) => {
        event.preventDefault();
        if (complete) save(body);
      }}
    >
      <TextInput label={t("newName")} maxLength={63} autoComplete="off" autoFocus value={name} error={isLabel(name) ? undefined : t("nameWrong")} onChange={(event) => setName(event.currentTarget.value)} />
      <TextInput label={t("newDescription")} maxLength={1_000} value={description} onChange={(event) => setDescription(event.currentTarget.value)} />
      <Button type="submit" disabled={!complete} loading={pending}>
        {t("editAction")}
      </Button>
    </form>
  );
}
