import { NativeSelect } from "@mantine/core";
import { Link, getRouteApi, useNavigate } from "@tanstack/react-router";
import { useMemo } from "react";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../api/client";
import { Heading } from "../components/a11y/heading";
import { Command } from "../components/system/copy";
import { type Column, CursorTable } from "../components/system/cursor-table";
import { useListControls } from "../components/system/list-controls";
import { Empty, Restricted } from "../components/system/states";
import { Time } from "../components/system/time";
import { useFormat } from "../i18n/format";
import { keys } from "../query/keys";
import { useSession } from "../session/session";
import { unreported } from "../stream/unreported";
import { Actions } from "./files/actions";
import { CreateFolder } from "./files/folder";
import { Parents } from "./files/parents";
import { projectOf } from "./launch/project";
import { Upload } from "./files/upload";
import { Usage } from "./files/usage";

type StorageObject = Schemas["StorageObject"];

const route = getRouteApi("/files");

export function Files() {
  const t = useTranslations("files");
  const { projectsWith, me } = useSession();
  const { path = "", project: asked = "" } = route.useSearch();
  const readable = projectsWith("listStorage");
  const project = projectOf(readable, asked, me.project?.id);
  return (
    <div className="stack">
      <Heading title={t("title")} />
      <p>{t("intro")}</p>
      {project === "" ? <Restricted message={t("noRights")} /> : <Folder key={project} projects={readable} project={project} path={path} />}
    </div>
  );
}

type Props = { projects: Schemas["Project"][]; project: string; path: string };

function Folder({ projects, project, path }: Props) {
  const t = useTranslations("files");
  const navigate = useNavigate({ from: "/files" });
  const { projectsWith } = useSession();
  const mayChange = projectsWith("uploadStorage").some(({ id }) => id === project);
  const [columns, controls] = useListControls("files", useColumns(project, mayChange));
  return (
    <>
      {projects.length > 1 && (
        <NativeSelect
          label={t("project")}
          value={project}
          onChange={(event) => void navigate({ search: { project: event.currentTarget.value } })}
          data={projects.map(({ id, name }) => ({ value: id, label: name }))}
        />
      )}
      <Usage project={project} />
      <Parents project={project} path={path} />
      {controls}
      <CursorTable
        key={path}
        label={t("list")}
        queryKey={keys.fileList(project, path)}
        load={(cursor) => unwrap(api.GET("/api/v1/storage/list", { params: { header: { "X-Project-ID": project }, query: { ...(path !== "" && { prefix: path }), cursor, limit: 100 } } }))}
        columns={columns}
        rowKey={({ id }) => id}
        refetchInterval={unreported.files.every}
        empty={<Empty text={t("none")} />}
      />
      {mayChange && <Upload project={project} path={path} />}
      {mayChange && <CreateFolder project={project} path={path} />}
      <p>
        <Link to="/files/deleted" search={{ project }}>{t("deletedFiles")}</Link>
      </p>
      <p>
        <Link to="/files/keys" search={{ project }}>{t("accessKeys")}</Link>
      </p>
      <Command text={`gpuaas storage ls ${path === "" ? "" : `${path}/`}`.trimEnd()} label={t("command")} />
    </>
  );
}

function useColumns(project: string, mayChange: boolean): Column<StorageObject>[] {
  const t = useTranslations("files");
  const { bytes } = useFormat();
  return useMemo(
    () => [
      { id: "name", header: t("name"), cell: ({ path, name, type }) => (type === "folder" ? <Link to="/files" search={{ project, path }}>{`${name}/`}</Link> : name) },
      { id: "size", header: t("size"), number: true, cell: ({ type, size_bytes }) => (type === "folder" ? "" : bytes(size_bytes)) },
      { id: "changed", header: t("changed"), cell: ({ updated_at }) => <Time at={updated_at} /> },
      { id: "actions", header: t("actions"), cell: (object) => <Actions project={project} object={object} mayChange={mayChange} /> },
    ],
    [t, bytes, project, mayChange],
  );
}
