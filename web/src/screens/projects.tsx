import { Button, TextInput } from "@mantine/core";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo } from "react";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../api/client";
import { Heading } from "../components/a11y/heading";
import { Command } from "../components/system/copy";
import { type Column, CursorTable } from "../components/system/cursor-table";
import { useListControls } from "../components/system/list-controls";
import { Empty } from "../components/system/states";
import { Time } from "../components/system/time";
import { keys } from "../query/keys";
import { useSession } from "../session/session";
import { CreateProject } from "./projects/create";

type Project = Schemas["Project"];

export function Projects() {
  const t = useTranslations("projects");
  const { may } = useSession();
  const { q } = useSearch({ from: "/projects" });
  const [columns, controls] = useListControls("projects", useColumns());
  return (
    <div className="stack">
      <Heading title={t("title")} />
      <Search key={q} q={q} />
      {controls}
      <CursorTable
        label={t("title")}
        queryKey={keys.projectSearch(q)}
        load={(cursor) => unwrap(api.GET("/api/v1/projects", { params: { query: { q, cursor, limit: 50 } } }))}
        columns={columns}
        rowKey={({ id }) => id}
        empty={<Empty text={q === undefined ? t("none") : t("noMatch")} />}
      />
      {may("createProject") && <CreateProject />}
      <Command text="gpuaas project list" label={t("command")} />
    </div>
  );
}

function useColumns(): Column<Project>[] {
  const t = useTranslations("projects");
  return useMemo(
    () => [
      { id: "name", header: t("name"), cell: ({ id, name }) => <Link to="/projects/$id" params={{ id }}>{name}</Link> },
      { id: "description", header: t("description"), cell: ({ description }) => description },
      { id: "role", header: t("role"), cell: ({ role }) => role || t("noRole") },
      { id: "created", header: t("created"), cell: ({ created_at }) => <Time at={created_at} /> },
    ],
    [t],
  );
}

function Search({ q }: { q?: string }) {
  const t = useTranslations("projects");
  const navigate = useNavigate({ from: "/projects" });
  return (
    <form
      className="row"
      onSubmit={(event) => {
        event.preventDefault();
        const text = String(new FormData(event.currentTarget).get("q") ?? "");
        void navigate({ search: (old) => ({ ...old, q: text || undefined }), replace: true });
      }}
    >
      <TextInput label={t("part")} name="q" maxLength={63} defaultValue={q ?? ""} />
      <Button type="submit" variant="default">
        {t("search")}
      </Button>
    </form>
  );
}
