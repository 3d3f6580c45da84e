import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../../api/client";
import { Reasoned } from "../../../components/system/reasoned";
import { keys } from "../../../query/keys";
import { useSession } from "../../../session/session";

type Choice = Omit<Schemas["DeadLetterDecision"], "reason">;
type Props = { name: string; id?: string; choice: Choice; note?: string };

// Decide are the decisions about one dead letter, or about all that a filter selects. A choice without an id says so.
export function Decide({ name, id, choice, note = "" }: Props) {
  const t = useTranslations("events");
  const { may } = useSession();
  const common = { name, id, least: 3, most: 512, input: () => choice, invalidates: [keys.deadLetters, keys.consumers] };
  return (
    <div className="row">
      {may("retryDeadLetters") && (
        <Reasoned
          {...common}
          action={t("retry")}
          text={`${t("retryText")} ${note}`}
          done={t("isRetried")}
          run={(body, key) => unwrap(api.POST("/api/v1/admin/events/dead-letters/retry", { params: { header: { "X-Idempotency-Key": key } }, body }))}
        />
      )}
      {may("discardDeadLetters") && (
        <Reasoned
          {...common}
          action={t("discard")}
          text={`${t("discardText")} ${note}`}
          done={t("isDiscarded")}
          run={(body, key) => unwrap(api.POST("/api/v1/admin/events/dead-letters/discard", { params: { header: { "X-Idempotency-Key": key } }, body }))}
        />
      )}
    </div>
  );
}

// DecideOne offers the decisions about an unresolved dead letter.
export function DecideOne({ letter: { id, subject, status } }: { letter: Schemas["DeadLetter"] }) {
  return status === "dead" && <Decide name={subject} id={id} choice={{ dead_letter_ids: [id] }} />;
}
