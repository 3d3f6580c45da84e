import { Checkbox, NativeSelect, TextInput, Textarea } from "@mantine/core";
import { useTranslations } from "use-intl";
import type { Schemas } from "../../api/client";
import { type Draft, isName, wrongMount } from "./request";

type Props = { draft: Draft; change: (fields: Partial<Draft>) => void; projects: Schemas["Project"][]; project: string; sku?: Schemas["Sku"] };

export function Options({ draft, change, projects, project, sku }: Props) {
  const t = useTranslations("launch");
  const wrong = wrongMount(draft.mounts);
  const regions = (sku?.regions ?? []).map(({ region, free }) => ({ value: region, label: t("regionFree", { region, free }) }));
  return (
    <section className="panel stack">
      <h2>{t("where")}</h2>
      <div className="cards">
        <TextInput
          label={t("gpus")}
          type="number"
          min={1}
          max={sku?.max_gpus ?? 1_024}
          required
          value={draft.gpus}
          onChange={(event) => change({ gpus: event.currentTarget.value })}
        />
        <NativeSelect
          label={t("region")}
          value={draft.region}
          onChange={(event) => change({ region: event.currentTarget.value })}
          data={[{ value: "", label: t("anyRegion") }, ...regions]}
        />
        <TextInput
          label={t("hours")}
          description={t("hoursNote")}
          inputMode="decimal"
          value={draft.hours}
          onChange={(event) => change({ hours: event.currentTarget.value })}
        />
        <TextInput
          label={t("name")}
          description={t("nameNote")}
          maxLength={63}
          value={draft.name}
          error={isName(draft.name) ? undefined : t("nameWrong")}
          onChange={(event) => change({ name: event.currentTarget.value })}
        />
        <NativeSelect
          label={t("project")}
          value={project}
          onChange={(event) => change({ project: event.currentTarget.value })}
          data={projects.map(({ id, name }) => ({ value: id, label: name }))}
        />
      </div>
      <Textarea
        label={t("mounts")}
        description={t("mountsNote")}
        placeholder={t("mountsExample")}
        rows={3}
        value={draft.mounts}
        error={wrong === undefined ? undefined : t("mountsWrong", { line: wrong })}
        onChange={(event) => change({ mounts: event.currentTarget.value })}
      />
      <Checkbox label={t("queue")} checked={draft.queue} onChange={(event) => change({ queue: event.currentTarget.checked })} />
    </section>
  );
}
