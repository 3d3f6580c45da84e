import { useTranslations } from "use-intl";
import type { Schemas } from "../../api/client";
import { Section } from "../../components/system/section";
import { Time } from "../../components/system/time";
import type { Part } from "../../query/model";

// Timeline shows the transitions.
export function Timeline({ part }: { part: Part<Schemas["Timeline"]> }) {
  const t = useTranslations("allocation");
  return (
    <Section title={t("timeline")} query={part}>
      {({ items }) => (
        <ol className="timeline">
          {items.map((each) => (
            <li key={each.version}>
              <p>
                <strong>{each.from === "" ? each.to : t("from", { from: each.from, to: each.to })}</strong> <Time at={each.occurred_at} />
              </p>
              <p>{each.message}</p>
              {each.actor !== undefined && each.actor !== "" && <p className="dim">{t("by", { actor: each.actor })}</p>}
            </li>
          ))}
        </ol>
      )}
    </Section>
  );
}
