import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo } from "react";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../api/client";
import { Heading } from "../components/a11y/heading";
import { Command } from "../components/system/copy";
import { type Column, CursorTable } from "../components/system/cursor-table";
import { Filter } from "../components/system/filter";
import { useListControls } from "../components/system/list-controls";
import { Empty } from "../components/system/states";
import { Time } from "../components/system/time";
import { useWords } from "../components/system/words";
import { keys } from "../query/keys";
import { MarkRead } from "./notifications/read";
import { Resource } from "./notifications/resource";

type Notification = Schemas["Notification"];

// marks differ in form, not only in colour.
const marks: Record<string, string> = { info: "●", warning: "▲", critical: "✕" };

export function Notifications() {
  const t = useTranslations("notifications");
  const { state } = useSearch({ from: "/notifications" });
  const navigate = useNavigate({ from: "/notifications" });
  const [columns, controls] = useListControls("notifications", useColumns());
  const unread = state === "unread";
  return (
    <div className="stack">
      <Heading title={t("title")} />
      <div className="row">
        <Filter label={t("show")} any={t("all")} values={["unread"]} value={state ?? ""} change={(state) => void navigate({ search: (old) => ({ ...old, state }), replace: true })} />
        <MarkRead text={t("markAll")} done={t("allRead")} />
        <Link to="/notifications/preferences">{t("preferences")}</Link>
      </div>
      {controls}
      <CursorTable
        label={t("list")}
        queryKey={keys.notificationList(unread)}
        load={(cursor) => unwrap(api.GET("/api/v1/notifications", { params: { query: { unread, cursor, limit: 100 } } }))}
        columns={columns}
        rowKey={({ id }) => id}
        empty={<Empty text={unread ? t("noneUnread") : t("none")} />}
      />
      <Command text={unread ? "gpuaas notifications list --unread" : "gpuaas notifications list"} label={t("command")} />
    </div>
  );
}

function useColumns(): Column<Notification>[] {
  const t = useTranslations("notifications");
  const word = useWords();
  return useMemo(
    () => [
      { id: "severity", header: t("severity"), cell: ({ severity }) => <span className="status"><span aria-hidden>{marks[severity] ?? "?"}</span>{word(severity)}</span> },
      { id: "title", header: t("subject"), cell: ({ title, read_at: read }) => (read === undefined ? <strong>{title}</strong> : title) },
      { id: "message", header: t("message"), cell: ({ message }) => message },
      { id: "resource", header: t("resource"), cell: ({ kind, resource_urn: urn }) => <Resource kind={kind} urn={urn} /> },
      { id: "count", header: t("count"), cell: ({ count }) => count, number: true },
      { id: "at", header: t("at"), cell: ({ updated_at }) => <Time at={updated_at} /> },
      { id: "state", header: t("state"), cell: ({ id, title, read_at: read }) => (read === undefined ? <MarkRead text={t("markRead")} label={t("markThis", { title })} done={t("isRead")} ids={[id]} /> : t("read")) },
    ],
    [t, word],
  );
}
