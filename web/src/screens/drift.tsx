import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo } from "react";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../api/client";
import { Heading } from "../components/a11y/heading";
import { Command } from "../components/system/copy";
import { type Column, More, Rows } from "../components/system/cursor-table";
import { Filter } from "../components/system/filter";
import { Content, Section } from "../components/system/section";
import { useListControls } from "../components/system/list-controls";
import { Empty } from "../components/system/states";
import { Time } from "../components/system/time";
import { useWords } from "../components/system/words";
import { useFormat } from "../i18n/format";
import { type DriftFilter, keys, refetch } from "../query/keys";
import { partOf } from "../query/model";
import { usePages } from "../query/pages";
import { useSession } from "../session/session";
import { Heal, Ignore, SuspendObject } from "./drift/actions";
import { Sources } from "./changes/sources";

type Entry = Schemas["Drift"];

const statuses = ["open", "ignored", "healed", "all"] as const;
const kinds: Schemas["Kind"][] = ["Allocation", "Environment", "Node", "OSImage", "Policy", "Role", "SKU", "StorageClass"];

// Without a filter the screen shows what is open.
const queryOf = ({ status = "open", kind }: DriftFilter) => ({ status: status === "all" ? undefined : (status as Entry["status"]), kind: kind as Entry["kind"] | undefined });

export function Drift() {
  const t = useTranslations("drift");
  const { columns: _, ...filter } = useSearch({ from: "/drift" });
  const [columns, controls] = useListControls("drift", useColumns());
  const { model, rows, query } = usePages({
    queryKey: keys.driftList(filter),
    load: (cursor) => unwrap(api.GET("/api/v3/platform/drift", { params: { query: { ...queryOf(filter), cursor, limit: 100 } } })),
    list: ({ drift }) => drift,
    refetchInterval: refetch.live,
  });
  return (
    <div className="stack">
      <Heading title={t("title")} />
      <Filters filter={filter} />
      {controls}
      <Content query={model}>
        {({ drift, sources }) => (
          <div className="stack">
            <Section title={t("list")} query={partOf(drift, model.refetch)} isEmpty={() => rows.length === 0} empty={<Empty text={filter.status === undefined && filter.kind === undefined ? t("none") : t("noMatch")} />}>
              {() => (
                <>
                  <Rows label={t("list")} columns={columns} rows={rows} rowKey={({ id }) => id} />
                  <More query={query} />
                </>
              )}
            </Section>
            <Sources part={partOf(sources, model.refetch)} />
          </div>
        )}
      </Content>
      <Command text={commandOf(queryOf(filter))} label={t("command")} />
    </div>
  );
}

// commandOf quotes what the address of the page has.
const commandOf = (filter: ReturnType<typeof queryOf>) =>
  ["gpuaas drift", ...Object.entries(filter).flatMap(([flag, value]) => (value === undefined ? [] : [`--${flag} '${value.replaceAll("'", "")}'`]))].join(" ");

function Filters({ filter }: { filter: DriftFilter }) {
  const t = useTranslations("drift");
  const navigate = useNavigate({ from: "/drift" });
  const set = (change: DriftFilter) => void navigate({ search: (old) => ({ ...old, ...change }), replace: true });
  return (
    <div className="row" role="group" aria-label={t("filters")}>
      <Filter label={t("state")} values={statuses} value={filter.status ?? "open"} change={(status) => set({ status: status === "open" ? undefined : status })} />
      <Filter label={t("kind")} any={t("anyKind")} values={kinds} value={filter.kind ?? ""} change={(kind) => set({ kind })} />
      {(filter.status ?? filter.kind) !== undefined && <Link to="/drift">{t("clear")}</Link>}
    </div>
  );
}

function useColumns(): Column<Entry>[] {
  const t = useTranslations("drift");
  const format = useFormat();
  const word = useWords();
  const { may } = useSession();
  const acts = may("ignoreDrift") || may("reconcileDesired");
  return useMemo(
    () => [
      { id: "object", header: t("object"), cell: (entry) => <Subject entry={entry} /> },
      { id: "field", header: t("field"), cell: ({ field }) => field },
      { id: "desired", header: t("desired"), cell: ({ desired }) => desired },
      { id: "observed", header: t("observed"), cell: ({ observed }) => observed },
      { id: "age", header: t("age"), cell: ({ opened_at }) => <Time at={opened_at} /> },
      { id: "cost", header: t("cost"), cell: ({ cost_per_hour }) => (cost_per_hour === undefined ? t("noCost") : format.money(cost_per_hour)), number: true },
      { id: "state", header: t("state"), cell: (entry) => <State entry={entry} /> },
      { id: "policy", header: t("policy"), cell: ({ policy }) => word(policy) },
      { id: "deadline", header: t("deadline"), cell: ({ deadline_at, status }) => (deadline_at === undefined || status !== "open" ? t("noDeadline") : <Time at={deadline_at} />) },
      { id: "owner", header: t("owner"), cell: ({ owner }) => owner },
      { id: "cause", header: t("cause"), cell: ({ cause }) => cause },
      ...(acts ? [{ id: "act", header: t("act"), cell: (entry: Entry) => <Actions entry={entry} /> }] : []),
    ],
    [t, format, word, acts],
  );
}

// Subject is the object that differs. A node and an allocation have screens.
function Subject({ entry: { kind, name, object_id: id } }: { entry: Entry }) {
  const t = useTranslations("drift");
  const text = t("objectText", { kind, name });
  if (kind === "Allocation") return <Link to="/admin/allocations/$id" params={{ id }}>{text}</Link>;
  return kind === "Node" ? <Link to="/fleet/$name" params={{ name }}>{text}</Link> : <>{text}</>;
}

function State({ entry: { status, ignored } }: { entry: Entry }) {
  const t = useTranslations("drift");
  const format = useFormat();
  const word = useWords();
  if (status !== "ignored" || ignored === undefined) return word(status);
  return t("ignoredText", { until: format.dateTime(ignored.until), by: ignored.by, reason: ignored.reason });
}

function Actions({ entry }: { entry: Entry }) {
  const { may } = useSession();
  if (entry.status !== "open") return null;
  return (
    <div className="row">
      {may("reconcileDesired") && <Heal entry={entry} />}
      {may("ignoreDrift") && <Ignore entry={entry} />}
      {may("suspendDesired") && <SuspendObject entry={entry} />}
    </div>
  );
}
