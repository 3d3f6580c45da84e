import { useNavigate, useSearch } from "@tanstack/react-router";
import { useTranslations } from "use-intl";
import { Heading } from "../../components/a11y/heading";
import { Command } from "../../components/system/copy";
import { Filter } from "../../components/system/filter";
import { FilterForm } from "../../components/system/filter-form";
import { useListControls } from "../../components/system/list-controls";
import type { LetterFilter } from "../../query/keys";
import { Consumers } from "./events/consumers";
import { Letters, choiceOf, useLetterColumns } from "./events/letters";

const streams = ["PROVISIONING", "BILLING", "PAYMENTS", "FLEET", "DLQ"];

// Events are what consumers could not process, and the state of the consumers.
export function Events() {
  const t = useTranslations("events");
  const { columns: _, ...filter } = useSearch({ from: "/admin/events" });
  const navigate = useNavigate({ from: "/admin/events" });
  const [columns, controls] = useListControls("events", useLetterColumns());
  const set = (change: LetterFilter) => void navigate({ search: (old) => ({ ...old, ...change }), replace: true });
  return (
    <div className="stack">
      <Heading title={t("title")} />
      <FilterForm
        fields={[
          { name: "consumer", label: t("consumer"), most: 64 },
          { name: "subject", label: t("subject"), most: 128 },
        ]}
        filter={filter}
        set={set}
      >
        <Filter label={t("stream")} any={t("anyStream")} values={streams} value={filter.stream ?? ""} change={(stream) => set({ stream })} />
        <Filter label={t("show")} any={t("unresolved")} values={["resolved"]} value={filter.state ?? ""} change={(state) => set({ state })} />
      </FilterForm>
      {controls}
      <Letters filter={filter} columns={columns} />
      <Command text={commandOf(filter)} label={t("command")} />
      <Consumers />
    </div>
  );
}

// commandOf quotes what the address of the page has.
const commandOf = (filter: LetterFilter) =>
  ["gpuaas events dead-letters", ...Object.entries(choiceOf(filter)).flatMap(([flag, value]) => (value === undefined ? [] : [`--${flag} '${value.replaceAll("'", "")}'`]))].join(" ");
