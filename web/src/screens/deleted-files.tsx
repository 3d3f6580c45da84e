import { Button } from "@mantine/core";
import { Link, getRouteApi } from "@tanstack/react-router";
import { useMemo } from "react";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../api/client";
import { Heading } from "../components/a11y/heading";
import { Command } from "../components/system/copy";
import { type Column, CursorTable } from "../components/system/cursor-table";
import { Failure } from "../components/system/failure";
import { useListControls } from "../components/system/list-controls";
import { Remove } from "../components/system/remove";
import { Empty, Restricted } from "../components/system/states";
import { Time } from "../components/system/time";
import { useToast } from "../components/system/toasts";
import { useFormat } from "../i18n/format";
import { useAction } from "../query/action";
import { keys } from "../query/keys";
import { useSession } from "../session/session";
import { unreported } from "../stream/unreported";
import { projectOf } from "./launch/project";

type StorageObject = Schemas["StorageObject"];

const route = getRouteApi("/files/deleted");
const invalidates = [keys.files];

export function DeletedFiles() {
  const t = useTranslations("files");
  const { projectsWith, me } = useSession();
  const { project: asked = "" } = route.useSearch();
  const project = projectOf(projectsWith("listStorage"), asked, me.project?.id);
  return (
    <div className="stack">
      <Heading title={t("deletedFiles")} />
      <p>{t("deletedIntro")}</p>
      {project === "" ? <Restricted message={t("noRights")} /> : <List project={project} />}
    </div>
  );
}

function List({ project }: { project: string }) {
  const t = useTranslations("files");
  const [columns, controls] = useListControls("deleted-files", useColumns(project));
  return (
    <>
      <p>
        <Link to="/files" search={{ project }}>{t("back")}</Link>
      </p>
      {controls}
      <CursorTable
        label={t("deletedFiles")}
        queryKey={keys.deletedFiles(project)}
        load={(cursor) => unwrap(api.GET("/api/v1/storage/list", { params: { header: { "X-Project-ID": project }, query: { deleted: true, cursor, limit: 100 } } }))}
        columns={columns}
        rowKey={({ id }) => id}
        refetchInterval={unreported.files.every}
        empty={<Empty text={t("noneDeleted")} />}
      />
      <Command text="gpuaas storage ls --deleted" label={t("commandDeleted")} />
    </>
  );
}

function useColumns(project: string): Column<StorageObject>[] {
  const t = useTranslations("files");
  const { bytes } = useFormat();
  const { projectsWith } = useSession();
  const mayChange = projectsWith("uploadStorage").some(({ id }) => id === project);
  return useMemo(
    () => [
      { id: "path", header: t("path"), cell: ({ path, type }) => (type === "folder" ? `${path}/` : path) },
      { id: "size", header: t("size"), number: true, cell: ({ type, size_bytes }) => (type === "folder" ? "" : bytes(size_bytes)) },
      { id: "deleted", header: t("deletedAt"), cell: ({ deleted_at }) => deleted_at !== undefined && <Time at={deleted_at} /> },
      { id: "purged", header: t("purgeAt"), cell: ({ purge_at }) => purge_at !== undefined && <Time at={purge_at} /> },
      {
        id: "actions",
        header: t("actions"),
        cell: (object) =>
          mayChange && (
            <div className="row">
              <Restore project={project} object={object} />
              <Purge project={project} object={object} />
            </div>
          ),
      },
    ],
    [t, bytes, project, mayChange],
  );
}

type Props = { project: string; object: StorageObject };

function Restore({ project, object: { id, name } }: Props) {
  const t = useTranslations("files");
  const toast = useToast();
  const action = useAction(
    (_: null, key) => unwrap(api.POST("/api/v1/storage/restore", { params: { header: { "X-Project-ID": project, "X-Idempotency-Key": key } }, body: { object_id: id } })),
    invalidates,
  );
  return (
    <>
      <Button variant="default" size="compact-sm" loading={action.pending} aria-label={t("restoreOf", { name })} onClick={() => action.start(null, () => toast(t("restored", { name })))}>
        {t("restore")}
      </Button>
      {action.error !== null && <Failure error={action.error} />}
    </>
  );
}

function Purge({ project, object: { id, name } }: Props) {
  const t = useTranslations("files");
  return (
    <Remove
      action={t("purge")}
      name={name}
      text={t("purgeText")}
      done={t("purged", { name })}
      run={(key) => unwrap(api.DELETE("/api/v1/storage/delete", { params: { header: { "X-Project-ID": project, "X-Idempotency-Key": key }, query: { id } } }))}
      invalidates={invalidates}
    />
  );
}
