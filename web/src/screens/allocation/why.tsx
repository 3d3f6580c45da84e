import { useTranslations } from "use-intl";
import type { Schemas } from "../../api/client";
import { Section } from "../../components/system/section";
import { Time } from "../../components/system/time";
import type { Part } from "../../query/model";

const waiting = new Set(["requested", "provisioning", "releasing", "release_failed"]);

export function Why({ part, status }: { part: Part<Schemas["AllocationWhy"]>; status: string }) {
  const t = useTranslations("allocation");
  if (!waiting.has(status)) return null;
  return (
    <Section title={t("why")} query={part} isEmpty={({ waits }) => !waits} empty={<p>{t("whyNothing")}</p>}>
      {(why) => <Reason why={why} />}
    </Section>
  );
}

function Reason({ why }: { why: Schemas["AllocationWhy"] }) {
  const t = useTranslations("allocation");
  return (
    <div className="stack">
      <p>
        <strong>{why.message}</strong>
      </p>
      <dl className="facts">
        <dt>{t("owner")}</dt>
        <dd>{t(`owners.${why.owner}`)}</dd>
        <dt>{t("reason")}</dt>
        <dd>{why.reason}</dd>
        {why.deadline_at !== undefined && (
          <>
            <dt>{t("deadline")}</dt>
            <dd>
              <Time at={why.deadline_at} />
            </dd>
          </>
        )}
        {why.position !== undefined && (
          <>
            <dt>{t("position")}</dt>
            <dd>{why.position}</dd>
          </>
        )}
      </dl>
      {why.filters.length > 0 && (
        <ul>
          {why.filters.map(({ filter, nodes }) => (
            <li key={filter}>{t("excluded", { count: nodes, filter })}</li>
          ))}
        </ul>
      )}
      <Suggestions title={t("suggestions")} suggestions={why.suggestions} />
    </div>
  );
}

export function Suggestions({ title, suggestions }: { title: string; suggestions: Schemas["Fit"][] }) {
  if (suggestions.length === 0) return null;
  return (
    <>
      <h3>{title}</h3>
      <ul>
        {suggestions.map(({ text, fits_at }) => (
          <li key={text}>{fits_at === undefined ? text : <Fits text={text} at={fits_at} />}</li>
        ))}
      </ul>
    </>
  );
}

function Fits({ text, at }: { text: string; at: string }) {
  return (
    <>
      {text} <Time at={at} />
    </>
  );
}
