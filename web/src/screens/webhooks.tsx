import { Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../api/client";
import { Heading } from "../components/a11y/heading";
import { Command } from "../components/system/copy";
import { type Column, CursorTable } from "../components/system/cursor-table";
import { useListControls } from "../components/system/list-controls";
import { Empty } from "../components/system/states";
import { Time } from "../components/system/time";
import { useWords } from "../components/system/words";
import { keys } from "../query/keys";
import { useSession } from "../session/session";
import { unreported } from "../stream/unreported";
import { Create } from "./webhooks/create";

type Webhook = Schemas["Webhook"];

export function Webhooks() {
  const t = useTranslations("webhooks");
  const { may } = useSession();
  const [columns, controls] = useListControls("webhooks", useColumns());
  return (
    <div className="stack">
      <Heading title={t("title")} />
      <p>{t("intro")}</p>
      {controls}
      <CursorTable
        label={t("list")}
        queryKey={keys.webhookList}
        load={(cursor) => unwrap(api.GET("/api/v1/webhooks", { params: { query: { cursor, limit: 100 } } }))}
        columns={columns}
        rowKey={({ id }) => id}
        refetchInterval={unreported.webhooks.every}
        empty={<Empty text={t("none")} />}
      />
      {may("createWebhook") && <Create />}
      <Command text="gpuaas webhook list" label={t("command")} />
    </div>
  );
}

function useColumns(): Column<Webhook>[] {
  const t = useTranslations("webhooks");
  const word = useWords();
  const { projects } = useSession();
  return useMemo(
    () => [
      { id: "name", header: t("name"), cell: ({ id, name }) => <Link to="/webhooks/$id" params={{ id }}>{name}</Link> },
      { id: "url", header: t("url"), cell: ({ url }) => url },
      { id: "events", header: t("events"), cell: ({ events }) => events.join(", ") },
      { id: "project", header: t("project"), cell: ({ project_id: project }) => (project === undefined ? t("allProjects") : (projects.find(({ id }) => id === project)?.name ?? project)) },
      { id: "status", header: t("status"), cell: ({ status }) => word(status) },
      { id: "changed", header: t("changed"), cell: ({ updated_at }) => <Time at={updated_at} /> },
    ],
    [t, word, projects],
  );
}
