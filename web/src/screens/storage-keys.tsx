import { Link, getRouteApi } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../api/client";
import { Heading } from "../components/a11y/heading";
import { Command } from "../components/system/copy";
import { type Column, CursorTable } from "../components/system/cursor-table";
import { useListControls } from "../components/system/list-controls";
import { Remove } from "../components/system/remove";
import { Empty, Restricted } from "../components/system/states";
import { Time } from "../components/system/time";
import { keys } from "../query/keys";
import { useSession } from "../session/session";
import { unreported } from "../stream/unreported";
import { projectOf } from "./launch/project";
import { CreateKey } from "./storage-keys/create";
import { Variables } from "./storage-keys/variables";

type Key = Schemas["StorageKey"];

const route = getRouteApi("/files/keys");

export function StorageKeys() {
  const t = useTranslations("storageKeys");
  const { projectsWith, me } = useSession();
  const { project: asked = "" } = route.useSearch();
  const projects = projectsWith("listStorage");
  const project = projects.find(({ id }) => id === projectOf(projects, asked, me.project?.id));
  return (
    <div className="stack">
      <Heading title={t("title")} />
      <p>{t("intro")}</p>
      {project === undefined ? <Restricted message={t("noRights")} /> : <Keys key={project.id} project={project} />}
    </div>
  );
}

type Project = Pick<Schemas["Project"], "id" | "name">;

function Keys({ project }: { project: Project }) {
  const t = useTranslations("storageKeys");
  const { projectsWith } = useSession();
  // The secret is outside of the list, which can fail while the secret is shown. A second key would replace it, so the form
  // waits.
  const [created, setCreated] = useState<Schemas["CreatedStorageKey"]>();
  const mayChange = projectsWith("createStorageKey").some(({ id }) => id === project.id);
  const [columns, controls] = useListControls("storage-keys", useColumns(project.id, mayChange));
  return (
    <>
      <p>
        <Link to="/files" search={{ project: project.id }}>{t("back", { project: project.name })}</Link>
      </p>
      {created !== undefined && <Variables created={created} project={project} close={() => setCreated(undefined)} />}
      {controls}
      <CursorTable
        label={t("list")}
        queryKey={keys.storageKeys(project.id)}
        load={(cursor) => unwrap(api.GET("/api/v1/storage/keys", { params: { header: { "X-Project-ID": project.id }, query: { cursor, limit: 50 } } }))}
        columns={columns}
        rowKey={({ id }) => id}
        refetchInterval={unreported.files.every}
        empty={<Empty text={t("none")} />}
      />
      {mayChange && created === undefined && <CreateKey project={project.id} show={setCreated} />}
      <Command text={`gpuaas storage key list ${project.name}:`} label={t("command")} />
    </>
  );
}

function useColumns(project: string, mayChange: boolean): Column<Key>[] {
  const t = useTranslations("storageKeys");
  return useMemo(
    () => [
      { id: "name", header: t("name"), cell: ({ name }) => name },
      { id: "access", header: t("accessKey"), cell: ({ access_key_id }) => <code>{access_key_id}</code> },
      { id: "scope", header: t("scope"), cell: ({ read_only }) => (read_only ? t("readOnly") : t("readWrite")) },
      { id: "folder", header: t("folder"), cell: ({ prefix }) => (prefix === undefined ? t("allFiles") : `${prefix}/`) },
      { id: "used", header: t("used"), cell: ({ last_used_at }) => (last_used_at === undefined ? t("never") : <Time at={last_used_at} />) },
      { id: "expires", header: t("expires"), cell: ({ expires_at }) => (expires_at === undefined ? t("noExpiry") : <Time at={expires_at} />) },
      ...(mayChange ? [{ id: "revoke", header: t("change"), cell: (key: Key) => <Revoke project={project} storageKey={key} /> }] : []),
    ],
    [t, project, mayChange],
  );
}

function Revoke({ project, storageKey: { id, name } }: { project: string; storageKey: Key }) {
  const t = useTranslations("storageKeys");
  return (
    <Remove
      action={t("revoke")}
      name={name}
      text={t("revokeText")}
      done={t("revoked", { name })}
      run={(key) =>
        unwrap(api.DELETE("/api/v1/storage/keys/{storage_key_id}", { params: { path: { storage_key_id: id }, header: { "X-Project-ID": project, "X-Idempotency-Key": key } } }))
      }
      invalidates={[keys.storageKeys(project)]}
    />
  );
}
