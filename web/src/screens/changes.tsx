import { Button, TextInput } from "@mantine/core";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../api/client";
import { Heading } from "../components/a11y/heading";
import { Command } from "../components/system/copy";
import { More, Rows } from "../components/system/cursor-table";
import { Filter } from "../components/system/filter";
import { Content, Section } from "../components/system/section";
import { useListControls } from "../components/system/list-controls";
import { Empty } from "../components/system/states";
import { type ChangeFilter, keys, refetch } from "../query/keys";
import { partOf } from "../query/model";
import { usePages } from "../query/pages";
import { usePlanColumns } from "./changes/columns";
import { Revisions } from "./changes/revisions";
import { Sources } from "./changes/sources";

type Plan = Schemas["Plan"];

const statuses: Plan["status"][] = ["proposed", "approved", "applied", "stale", "rejected"];
const origins: NonNullable<Plan["origin"]>[] = ["change", "loop"];

export function Changes() {
  const t = useTranslations("changes");
  const { columns: _, ...filter } = useSearch({ from: "/changes" });
  const [columns, controls] = useListControls("changes", usePlanColumns());
  const filtered = Object.values(filter).some((value) => value !== undefined);
  const { model, rows, query } = usePages({
    queryKey: keys.changeList(filter),
    load: (cursor) => unwrap(api.GET("/api/v3/platform/changes", { params: { query: { ...(filter as { status?: Plan["status"]; origin?: Plan["origin"] }), cursor, limit: 50 } } })),
    list: ({ plans }) => plans,
    refetchInterval: refetch.live,
  });
  return (
    <div className="stack">
      <Heading title={t("title")} />
      <Filters key={filter.source} filter={filter} filtered={filtered} />
      {controls}
      <Content query={model}>
        {({ plans, revisions, sources }) => (
          <div className="stack">
            <Section title={t("plans")} query={partOf(plans, model.refetch)} isEmpty={() => rows.length === 0} empty={<Empty text={filtered ? t("noMatch") : t("none")} />}>
              {() => (
                <>
                  <Rows label={t("plans")} columns={columns} rows={rows} rowKey={({ id }) => id} />
                  <More query={query} />
                </>
              )}
            </Section>
            <Revisions part={partOf(revisions, model.refetch)} />
            <Sources part={partOf(sources, model.refetch)} />
          </div>
        )}
      </Content>
      <Command text={commandOf(filter)} label={t("command")} />
    </div>
  );
}

// commandOf quotes what the address of the page has.
const commandOf = ({ origin, source, status }: ChangeFilter) =>
  ["gpuaas get plans", ...Object.entries({ origin, source, status }).flatMap(([flag, value]) => (value === undefined ? [] : [`--${flag} '${value.replaceAll("'", "")}'`]))].join(" ");

function Filters({ filter, filtered }: { filter: ChangeFilter; filtered: boolean }) {
  const t = useTranslations("changes");
  const navigate = useNavigate({ from: "/changes" });
  const set = (change: ChangeFilter) => void navigate({ search: (old) => ({ ...old, ...change }), replace: true });
  return (
    <form
      className="row"
      aria-label={t("filters")}
      onSubmit={(event) => {
        event.preventDefault();
        set({ source: String(new FormData(event.currentTarget).get("source") ?? "") || undefined });
      }}
    >
      <Filter label={t("state")} any={t("anyState")} values={statuses} value={filter.status ?? ""} change={(status) => set({ status })} />
      <Filter label={t("origin")} any={t("anyOrigin")} values={origins} value={filter.origin ?? ""} change={(origin) => set({ origin })} />
      <TextInput label={t("source")} name="source" maxLength={256} defaultValue={filter.source ?? ""} />
      <Button type="submit" variant="default">
        {t("filter")}
      </Button>
      {filtered && <Link to="/changes">{t("clear")}</Link>}
    </form>
  );
}
