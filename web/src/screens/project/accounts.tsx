import { Button, TextInput } from "@mantine/core";
import { Link, useNavigate } from "@tanstack/react-router";
import { useMemo } from "react";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../api/client";
import { Command } from "../../components/system/copy";
import { type Column, CursorTable } from "../../components/system/cursor-table";
import { Failure } from "../../components/system/failure";
import { Section } from "../../components/system/section";
import { Empty } from "../../components/system/states";
import { Time } from "../../components/system/time";
import { useToast } from "../../components/system/toasts";
import { useAction } from "../../query/action";
import { keys } from "../../query/keys";
import type { Part } from "../../query/model";
import { useDraft } from "../../session/draft";
import { Scopes, scopesOf } from "../keys/scopes";
import { isLabel } from "../launch/request";

type Account = Schemas["ServiceAccount"];
type Props = { project: Pick<Schemas["Project"], "id" | "name">; part: Part<Schemas["ServiceAccountList"]> };

// ServiceAccounts are shown to those who may create them: no other role reads them.
export function ServiceAccounts({ project, part }: Props) {
  const t = useTranslations("accounts");
  return (
    <Section title={t("title")} query={part}>
      {(first) => (
        <div className="stack">
          <List project={project.id} first={first} />
          <Create project={project.id} />
          <Command text={`gpuaas service-account list --project ${project.name}`} label={t("copyList")} />
        </div>
      )}
    </Section>
  );
}

function List({ project, first }: { project: string; first: Schemas["ServiceAccountList"] }) {
  const t = useTranslations("accounts");
  const columns = useMemo(
    (): Column<Account>[] => [
      { id: "name", header: t("name"), cell: ({ id, name }) => <Link to="/service-accounts/$id" params={{ id }}>{name}</Link> },
      { id: "scopes", header: t("scopes"), cell: ({ scopes }) => scopes.join(", ") },
      { id: "state", header: t("state"), cell: ({ disabled }) => (disabled ? t("disabled") : t("enabled")) },
      { id: "used", header: t("used"), cell: ({ last_used_at }) => (last_used_at === undefined ? t("never") : <Time at={last_used_at} />) },
    ],
    [t],
  );
  return (
    <CursorTable
      first={first}
      label={t("title")}
      queryKey={keys.serviceAccounts(project)}
      load={(cursor) => unwrap(api.GET("/api/v1/projects/{project_id}/service-accounts", { params: { path: { project_id: project }, query: { cursor, limit: 50 } } }))}
      columns={columns}
      rowKey={({ id }) => id}
      empty={<Empty text={t("none")} />}
    />
  );
}

function Create({ project }: { project: string }) {
  const t = useTranslations("accounts");
  const toast = useToast();
  const navigate = useNavigate();
  const [draft, change, done] = useDraft("service-account", { name: "", scopes: [] as string[] });
  const scopes = scopesOf(draft.scopes);
  const action = useAction(
    (body: Schemas["ServiceAccountRequest"], key) =>
      unwrap(api.POST("/api/v1/projects/{project_id}/service-accounts", { params: { path: { project_id: project }, header: { "X-Idempotency-Key": key } }, body })),
    [keys.project(project)],
  );
  const complete = isLabel(draft.name) && scopes.length > 0;
  const create = () =>
    action.start({ name: draft.name, scopes }, ({ id, name }, shown) => {
      done();
      toast(t("created", { name }));
      if (shown) void navigate({ to: "/service-accounts/$id", params: { id } });
    });
  return (
    <form
      className="stack"
      onSubmit={(event) => {
        event.preventDefault();
        if (complete) create();
      }}
    >
      <h3>{t("create")}</h3>
      <TextInput
        label={t("name")}
        maxLength={63}
        required
        autoComplete="off"
        value={draft.name}
        error={draft.name === "" || isLabel(draft.name) ? undefined : t("nameWrong")}
        onChange={(event) => change({ name: event.currentTarget.value })}
      />
      <Scopes legend={t("scopesNote")} chosen={draft.scopes} choose={(chosen) => change({ scopes: chosen })} />
      {action.error !== null && <Failure error={action.error} />}
      <Button type="submit" disabled={!complete} loading={action.pending}>
        {t("createAction")}
      </Button>
    </form>
  );
}
