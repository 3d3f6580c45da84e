import { Checkbox } from "@mantine/core";
import { useTranslations } from "use-intl";
import { api, unwrap } from "../../../api/client";
import { Reasoned } from "../../../components/system/reasoned";
import { When, isoOf } from "../../../components/system/when";
import { keys } from "../../../query/keys";

type Fields = { from: string; to: string; repeat: boolean };

// rangeOf is what the request needs, or undefined where a time is none or the range is empty.
function rangeOf({ from, to, repeat }: Fields) {
  const [start, end] = [isoOf(from), isoOf(to)];
  const wrong = (from !== "" && start === undefined) || (to !== "" && end === undefined) || (start !== undefined && end !== undefined && start >= end);
  return wrong ? undefined : { from_at: start, to_at: end, repeat };
}

// Replay has a consumer process stored events again.
export function Replay({ name }: { name: string }) {
  const t = useTranslations("events");
  return (
    <Reasoned
      action={t("replay")}
      name={name}
      text={t("replayText")}
      done={t("isReplaying", { name })}
      least={3}
      most={512}
      fields={(): Fields => ({ from: "", to: "", repeat: false })}
      input={rangeOf}
      run={(body, key) => unwrap(api.POST("/api/v1/admin/events/consumers/{name}/replay", { params: { path: { name }, header: { "X-Idempotency-Key": key } }, body }))}
      invalidates={[keys.consumers]}
    >
      {(fields, change) => (
        <>
          <When label={t("from")} note={t("anyTime")} value={fields.from} change={(from) => change({ from })} error={rangeOf(fields) === undefined ? t("timeWrong") : undefined} />
          <When label={t("to")} note={t("anyTime")} value={fields.to} change={(to) => change({ to })} />
          <Checkbox label={t("repeat")} checked={fields.repeat} onChange={(event) => change({ repeat: event.currentTarget.checked })} />
        </>
      )}
    </Reasoned>
  );
}
